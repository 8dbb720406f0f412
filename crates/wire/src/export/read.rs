//! Reads the lines of an export back into conversations.

use herma_model::copy::{Copied, CopiedConversation, CopiedSource, CopyBuilder, Piece};

use super::line::Line;
use super::{Counts, FORMAT, VERSION};

/// A conversation that was read completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// What it inherits.
    pub inherited: Vec<Copied<CopiedSource>>,
    /// The conversation.
    pub conversation: Copied<CopiedConversation>,
    /// The number of its first line.
    pub line: u64,
}

/// Why an export cannot be read further.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// It is not an export of Herma's.
    #[error("this is no export of Herma's: its first line has to be the header of a {FORMAT} file")]
    Foreign,
    /// A newer Herma wrote it.
    #[error("it is of version {0}, and this Herma reads up to {VERSION}; a newer Herma reads it")]
    Newer(u32),
    /// A line is wrong.
    #[error("line {line}: {problem}")]
    Line {
        /// Its number, from 1 on.
        line: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// The last line is missing.
    #[error("it ends after line {0} and has no last line: it was cut off")]
    CutOff(u64),
}

/// Reads an export line by line. It holds at most one conversation in memory.
#[derive(Debug, Default)]
pub struct Reader {
    line: u64,
    begun_at: u64,
    builder: CopyBuilder,
    counts: Counts,
    conversations: u64,
    is_complete: bool,
}

impl Reader {
    /// Reads the next line. Returns a conversation if this line ends one.
    pub fn line(&mut self, text: &str) -> Result<Option<Whole>, Damage> {
        self.line += 1;
        if self.line == 1 {
            return header(text).map(|()| None);
        }
        self.next(text).map_err(|problem| Damage::Line { line: self.line, problem })
    }

    fn next(&mut self, text: &str) -> Result<Option<Whole>, String> {
        if self.is_complete {
            return Err("there is more after the last line".to_owned());
        }
        match Line::read(text)? {
            Line::Header(_) => Err("there is a second header".to_owned()),
            Line::Piece(piece) => self.add(piece).map(|()| None),
            Line::End(end) => {
                let finished = std::mem::take(&mut self.builder).finish();
                let counts = std::mem::take(&mut self.counts);
                let Some((inherited, conversation)) = finished.filter(|(_, it)| it.what.id == end.conversation_id)
                else {
                    return Err(format!("it ends {}, which did not begin", end.conversation_id));
                };
                if counts != end.counts {
                    return Err(format!("lines of {} are missing or too many", end.conversation_id));
                }
                self.conversations += 1;
                Ok(Some(Whole { inherited, conversation, line: self.begun_at }))
            }
            Line::Complete(_) if !self.builder.is_empty() => Err("a conversation before it has no end".to_owned()),
            Line::Complete(complete) if complete.conversations != self.conversations => {
                Err(format!("it counts {} conversations, and {} came", complete.conversations, self.conversations))
            }
            Line::Complete(_) => {
                self.is_complete = true;
                Ok(None)
            }
        }
    }

    fn add(&mut self, piece: Piece) -> Result<(), String> {
        if self.builder.is_empty() {
            self.begun_at = self.line;
        }
        self.counts.add(&piece);
        self.builder.add(piece).map_err(|misplaced| format!("it {misplaced}"))
    }

    /// Checks that the export is complete. Call it when there are no more lines.
    pub fn end(&self) -> Result<(), Damage> {
        match (self.line, self.is_complete) {
            (0, _) => Err(Damage::Foreign),
            (_, true) => Ok(()),
            (line, false) => Err(Damage::CutOff(line)),
        }
    }
}

fn header(text: &str) -> Result<(), Damage> {
    // A newer header may differ, so only its format and its version are read.
    let fields: serde_json::Value = serde_json::from_str(text).map_err(|_| Damage::Foreign)?;
    let version = fields["version"].as_u64().and_then(|version| u32::try_from(version).ok());
    match (fields["format"].as_str(), version) {
        (Some(FORMAT), Some(version)) if version > VERSION => Err(Damage::Newer(version)),
        (Some(FORMAT), Some(1..)) => Ok(()),
        _ => Err(Damage::Foreign),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::Writer;
    use herma_model::Timestamp;

    const HEADER: &str = r#"{"type":"header","format":"herma.sessions","version":1,"exported_at":"2026-03-04T05:06:07.089Z","herma_version":"0.1.0"}"#;
    const LINES: [&str; 5] = [
        r#"{"type":"conversation","id":"conv_00000000000000000000000000000007","origin_kind":"main","source":"cli","metadata":{"b":1.50,"a":2},"archived":false,"created_at":"2026-03-04T05:06:07.089Z","updated_at":"2026-03-04T05:06:07.089Z","message_count":1,"turn_count":1,"usage":{"input_tokens":1,"output_tokens":2,"cached_tokens":0,"reasoning_tokens":0},"compaction_count":0,"held_back":false,"rewrites":0,"next_place":2,"names":[{"namespace":"chat_id","name":"c"}]}"#,
        r#"{"type":"session","id":"trip","kind":"main","depth":0,"creator_kind":"cli","created_at":"2026-03-04T05:06:07.089Z"}"#,
        r#"{"type":"turn","id":"turn_00000000000000000000000080000000","session_id":"trip","api":"chat","state":"failed","attempt":1,"resolution":"created","rotated":false,"first_place":1,"last_place":1,"failure":{"code":"upstream_error","message":"gone"},"kept":false,"promised":false,"cut_off":false,"created_at":"2026-03-04T05:06:07.089Z","ended_at":"2026-03-04T05:06:07.089Z"}"#,
        r#"{"type":"message","id":"msg_00000000000000000000000080100000","session_id":"trip","place":1,"turn_id":"turn_00000000000000000000000080000000","attempt":1,"created_at":"2026-03-04T05:06:07.089Z","said":{"role":"user","status":"complete","payload":{"role":"user","content":"\u00e9\/ 1.0"},"digest":"000102030405060708090a0b0c0d0e0f","tokens":3}}"#,
        r#"{"type":"end","conversation_id":"conv_00000000000000000000000000000007","sessions":1,"turns":1,"messages":1,"compactions":0}"#,
    ];
    const COMPLETE: &str = r#"{"type":"complete","conversations":1}"#;

    fn read(lines: &[&str]) -> (Vec<Whole>, Result<(), String>) {
        let (mut reader, mut wholes) = (Reader::default(), Vec::new());
        for line in lines {
            match reader.line(line) {
                Ok(whole) => wholes.extend(whole),
                Err(damage) => return (wholes, Err(damage.to_string())),
            }
        }
        (wholes, reader.end().map_err(|damage| damage.to_string()))
    }

    fn file() -> Vec<&'static str> {
        [HEADER].into_iter().chain(LINES).chain([COMPLETE]).collect()
    }

    #[test]
    fn an_export_is_written_again_byte_for_byte() {
        let (wholes, end) = read(&file());
        assert_eq!(end, Ok(()));
        let [Whole { inherited, conversation, line: 2 }] = &wholes[..] else { panic!("{wholes:?}") };
        assert!(inherited.is_empty());
        let mut writer = Writer::default();
        let mut lines = vec![writer.header("0.1.0", Timestamp(1_772_600_767_089)).unwrap()];
        let what = conversation.clone();
        let pieces = [
            Piece::Conversation(Box::new(what.what)),
            Piece::Session(Box::new(what.sessions[0].clone())),
            Piece::Turn(Box::new(what.turns[0].clone())),
            Piece::Message(Box::new(what.messages[0].clone())),
        ];
        lines.extend(pieces.into_iter().map(|piece| writer.piece(piece).unwrap()));
        lines.extend(writer.end().unwrap());
        lines.push(writer.complete().unwrap());
        assert_eq!(lines, file());
    }

    #[test]
    fn a_file_that_was_cut_off_anywhere_is_noticed() {
        let file = file();
        for lines in 0..file.len() {
            let (wholes, end) = read(&file[..lines]);
            assert_eq!(wholes.len(), usize::from(lines == file.len() - 1), "{lines}");
            let expected = match lines {
                0 => "this is no export of Herma's: its first line has to be the header of a herma.sessions file"
                    .to_owned(),
                _ => format!("it ends after line {lines} and has no last line: it was cut off"),
            };
            assert_eq!(end, Err(expected));
        }
    }

    #[test]
    fn a_line_that_is_not_what_it_should_be_is_named() {
        let newer = HEADER.replace("\"version\":1", "\"version\":2");
        let fewer = LINES[4].replace("\"messages\":1", "\"messages\":2");
        let half = &LINES[3][..60];
        let torn = LINES[3].replace("msg_0", "msg_x");
        for (at, line, problem) in [
            (0, newer.as_str(), "it is of version 2, and this Herma reads up to 1; a newer Herma reads it"),
            (0, "SQLite format 3", "this is no export of Herma's"),
            (0, LINES[0], "this is no export of Herma's"),
            (1, LINES[1], "line 2: it does not belong here"),
            (2, HEADER, "line 3: there is a second header"),
            (2, LINES[0], "line 3: it does not belong here"),
            (3, r#"{"type":"secret"}"#, "line 4: there is no line of type \"secret\""),
            (4, half, "line 5: it is no line of an export: EOF while parsing a string at column 60"),
            (4, "", "line 5: it is no line of an export: EOF while parsing"),
            (4, &torn, "line 5: it cannot be read: not an id of the form msg_<32 hex digits>"),
            (5, &fewer, "line 6: lines of conv_00000000000000000000000000000007 are missing or too many"),
            (5, COMPLETE, "line 6: a conversation before it has no end"),
            (6, r#"{"type":"complete","conversations":2}"#, "line 7: it counts 2 conversations, and 1 came"),
        ] {
            let mut lines = file();
            lines[at] = line;
            let (_, end) = read(&lines);
            let said = end.unwrap_err();
            assert!(said.starts_with(problem), "{said}");
        }
        let mut more = file();
        more.push(COMPLETE);
        assert_eq!(read(&more).1, Err("line 8: there is more after the last line".to_owned()));
    }
}
