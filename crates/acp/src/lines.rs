//! Lines of stdin and stdout. Each stream has a thread, because neither can be waited for without blocking.
//!
//! Both channels are short. If the editor reads slowly, the agent waits; if the agent is slow, the editor waits.

use std::io::{self, BufRead, Write};
use std::thread;

use tokio::sync::{mpsc, oneshot};

/// The longest line that is read.
pub(crate) const LONGEST_LINE: usize = 64 * 1024 * 1024;
/// How many lines wait in memory, in each direction.
const WAITING_LINES: usize = 32;
/// A buffer that has grown beyond this is not kept.
const KEPT_BUFFER: usize = 64 * 1024;

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// A line without its end.
    Line(Vec<u8>),
    /// A line that was longer than [`LONGEST_LINE`]. It is lost.
    TooLong,
}

/// Reads lines on a thread, until the end of the input.
pub(crate) fn read(mut input: impl BufRead + Send + 'static) -> io::Result<mpsc::Receiver<Input>> {
    let (send, lines) = mpsc::channel(WAITING_LINES);
    thread::Builder::new().name("acp-input".to_owned()).spawn(move || {
        while let Ok(Some(line)) = next(&mut input, LONGEST_LINE) {
            if send.blocking_send(line).is_err() {
                break;
            }
        }
    })?;
    Ok(lines)
}

/// The next line. `None` at the end of the input. A last line without an end is read too.
fn next(input: &mut impl BufRead, longest: usize) -> io::Result<Option<Input>> {
    let (mut line, mut is_too_long, mut is_begun) = (Vec::new(), false, false);
    loop {
        let buffer = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            buffer => buffer?,
        };
        if buffer.is_empty() && !is_begun {
            return Ok(None);
        }
        is_begun = true;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(buffer.len());
        is_too_long |= line.len() + taken > longest;
        if is_too_long {
            line = Vec::new();
        } else {
            line.extend_from_slice(&buffer[..taken]);
        }
        let is_last = buffer.is_empty();
        input.consume(taken + usize::from(end.is_some()));
        if end.is_some() || is_last {
            return Ok(Some(if is_too_long { Input::TooLong } else { Input::Line(line) }));
        }
    }
}

/// Sent in place of a line: the thread ends. A turn that waits for a person may still hold a sender then.
pub(crate) const END: Vec<u8> = Vec::new();

/// The lines to be written, until [`END`] or until all senders are gone.
pub(crate) struct Output {
    /// Takes a line without its end.
    pub(crate) lines: mpsc::Sender<Vec<u8>>,
    /// Resolves when all lines are written, or when the other side reads no more.
    pub(crate) ended: oneshot::Receiver<()>,
}

/// Writes lines on a thread, until the end or until the other side reads no more.
pub(crate) fn write(mut output: impl Write + Send + 'static) -> io::Result<Output> {
    let (lines, mut waiting) = mpsc::channel::<Vec<u8>>(WAITING_LINES);
    let (end, ended) = oneshot::channel();
    thread::Builder::new().name("acp-output".to_owned()).spawn(move || {
        let mut buffer = Vec::new();
        while let Some(line) = waiting.blocking_recv().filter(|line| *line != END) {
            buffer.clear();
            buffer.shrink_to(KEPT_BUFFER);
            buffer.extend_from_slice(&line);
            buffer.push(b'\n');
            if output.write_all(&buffer).and_then(|()| output.flush()).is_err() {
                break;
            }
        }
        // The receiver may be gone.
        let _ = end.send(());
    })?;
    Ok(Output { lines, ended })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str, longest: usize) -> Vec<Input> {
        let mut input = io::BufReader::with_capacity(3, text.as_bytes());
        std::iter::from_fn(|| next(&mut input, longest).unwrap()).collect()
    }

    fn line(text: &str) -> Input {
        Input::Line(text.as_bytes().to_vec())
    }

    #[test]
    fn lines_are_cut_at_their_ends_and_the_last_needs_none() {
        assert_eq!(all("", 9), []);
        assert_eq!(all("one\n\ntwo", 9), [line("one"), line(""), line("two")]);
        assert_eq!(all("one\n", 9), [line("one")]);
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_as_a_whole() {
        assert_eq!(all("longer than that\nshort\nlong again", 8), [Input::TooLong, line("short"), Input::TooLong]);
        assert_eq!(all("12345678\n", 8), [line("12345678")]);
    }
}
