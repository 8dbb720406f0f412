//! From any text to one line of at most [`LONGEST`] characters.

use std::borrow::Cow;

/// Longest title, in characters.
pub const LONGEST: usize = 60;
/// Whole sentences with fewer characters say too little to be a title.
const LEAST_SENTENCE: usize = 16;
/// A title is not cut at a space before this character. If there is no later space, the script has probably no spaces
/// between words.
const LEAST_CUT: usize = LONGEST / 2;

/// Pairs of marks around a text that are not part of the title.
const PAIRS: [(&str, &str); 12] = [
    ("**", "**"),
    ("__", "__"),
    ("*", "*"),
    ("_", "_"),
    ("`", "`"),
    ("\"", "\""),
    ("'", "'"),
    ("“", "”"),
    ("„", "“"),
    ("‘", "’"),
    ("«", "»"),
    ("「", "」"),
];
/// Marks at the beginning of a list item, a quotation or a task.
const MARKERS: [&str; 8] = ["> ", "- ", "* ", "+ ", "• ", "[ ] ", "[x] ", "[X] "];

/// A text without invisible characters. Every kind of line end becomes a line feed, other white space becomes a space.
/// Joiners stay between the letters and emoji that they join: without them an emoji falls apart, and some words change.
pub(super) fn visible(text: &str) -> Cow<'_, str> {
    // Most texts have nothing to replace, and a message may be long.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n')) {
        return Cow::Borrowed(text);
    }
    let text = text.replace("\r\n", "\n");
    let mut visible = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        let joins = is_joiner(character)
            && visible.chars().next_back().is_some_and(can_be_joined)
            && rest.peek().copied().is_some_and(can_be_joined);
        visible.extend(if joins { Some(character) } else { visible_character(character) });
    }
    Cow::Owned(visible)
}

/// The joiner and the non-joiner of zero width.
const fn is_joiner(character: char) -> bool {
    matches!(character, '\u{200c}' | '\u{200d}')
}

/// Whether a joiner beside this character can change how it looks.
fn can_be_joined(character: char) -> bool {
    let is_emoji = matches!(character, '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}');
    is_emoji || is_combining(character) || (!character.is_ascii() && character.is_alphanumeric())
}

fn visible_character(character: char) -> Option<char> {
    match character {
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => Some('\n'),
        character if character.is_whitespace() => Some(' '),
        character if character.is_control() || is_invisible(character) => None,
        character => Some(character),
    }
}

/// Characters without a width or a meaning: joiners, marks of direction, fillers, tags, private use.
const fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{17b4}'
            | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffd}'
            | '\u{e000}'..='\u{f8ff}'
            | '\u{e0000}'..='\u{10ffff}'
    )
}

/// The first line that has words, without the marks of a heading, a list item or a quotation.
pub(super) fn first(text: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
        Some(shortened(without_final_mark(without_markup(&words)))).filter(|line| has_words(line))
    })
}

fn has_words(line: &str) -> bool {
    line.chars().any(char::is_alphanumeric)
}

/// A line without marks before it and pairs of marks around it.
fn without_markup(line: &str) -> &str {
    let mut rest = line.trim();
    loop {
        let bare = without_marker(rest).trim();
        let inner = PAIRS.iter().find_map(|(open, close)| {
            let inner = bare.strip_prefix(open)?.strip_suffix(close)?;
            (!inner.contains(close) && !inner.contains(open)).then_some(inner)
        });
        let inner = inner.unwrap_or(bare).trim();
        if inner == rest {
            return rest;
        }
        rest = inner;
    }
}

fn without_marker(line: &str) -> &str {
    let heading = line.trim_start_matches('#');
    if heading.len() < line.len() && heading.starts_with(' ') {
        return heading;
    }
    let after_number = line.trim_start_matches(|sign: char| sign.is_ascii_digit());
    if (1..=3).contains(&(line.len() - after_number.len()))
        && let Some(point) = [". ", ") "].iter().find_map(|end| after_number.strip_prefix(end))
    {
        return point;
    }
    MARKERS.iter().find_map(|marker| line.strip_prefix(marker)).unwrap_or(line)
}

/// A line without a full stop, colon or comma at its end.
fn without_final_mark(line: &str) -> &str {
    let bare = line.trim_end_matches([' ', ',', ';', ':', '：', '；', '，', '、']);
    match bare.strip_suffix(['.', '。']) {
        Some(sentence) if !sentence.ends_with(['.', '。']) => sentence.trim_end(),
        _ => bare,
    }
}

/// At most [`LONGEST`] characters of a line: as many whole sentences as fit, or the beginning of the first one.
fn shortened(line: &str) -> String {
    let Some((limit, _)) = line.char_indices().nth(LONGEST) else { return line.to_owned() };
    if let Some(end) = end_of_sentences(line, limit) {
        return without_final_mark(&line[..end]).to_owned();
    }
    let most = boundary(line, LONGEST - 1);
    let least = line.char_indices().nth(LEAST_CUT).map_or(0, |(at, _)| at);
    let last_word = line[..most].rfind(' ').filter(|at| *at >= least && !line[most..].starts_with(' '));
    let cut = last_word.unwrap_or(most);
    let kept = line[..cut].trim_end_matches(|sign: char| sign.is_whitespace() || ",;:.-–—…(，、；：".contains(sign));
    format!("{kept}…")
}

/// Where the last sentence that fits ends.
fn end_of_sentences(line: &str, limit: usize) -> Option<usize> {
    let last = line[..limit].char_indices().rev().find_map(|(at, sign)| {
        let end = at + sign.len_utf8();
        let is_end = match sign {
            '.' | '!' | '?' => line[end..].starts_with(' '),
            '。' | '！' | '？' => true,
            _ => false,
        };
        is_end.then_some(end)
    });
    last.filter(|end| line[..*end].chars().count() >= LEAST_SENTENCE)
}

/// Where the first `most` characters end. Never between a letter and its combining characters, nor beside a joiner.
fn boundary(line: &str, most: usize) -> usize {
    let starts: Vec<(usize, char)> = line.char_indices().take(most + 1).collect();
    let mut at = most;
    let belongs = |at: usize| starts.get(at).is_some_and(|(_, next)| is_combining(*next) || is_joiner(*next));
    let follows_a_joiner = |at: usize| starts.get(at - 1).is_some_and(|(_, last)| is_joiner(*last));
    while at > 1 && (belongs(at) || follows_a_joiner(at)) {
        at -= 1;
    }
    starts.get(at).map_or(line.len(), |(start, _)| *start)
}

/// Whether a character belongs to the one before it: an accent, a vowel sign, a skin tone, the second half of a flag or
/// of a syllable.
const fn is_combining(character: char) -> bool {
    matches!(
        character,
        '\u{300}'..='\u{36f}'
            | '\u{483}'..='\u{489}'
            | '\u{591}'..='\u{5bd}'
            | '\u{610}'..='\u{61a}'
            | '\u{64b}'..='\u{65f}'
            | '\u{900}'..='\u{903}'
            | '\u{93a}'..='\u{93c}'
            | '\u{93e}'..='\u{94f}'
            | '\u{981}'..='\u{983}'
            | '\u{9bc}'..='\u{9cd}'
            | '\u{a01}'..='\u{a03}'
            | '\u{a3c}'..='\u{a4d}'
            | '\u{abc}'..='\u{acd}'
            | '\u{b3c}'..='\u{b4d}'
            | '\u{bbe}'..='\u{bcd}'
            | '\u{c3e}'..='\u{c4d}'
            | '\u{cbc}'..='\u{ccd}'
            | '\u{d3e}'..='\u{d4d}'
            | '\u{e31}'
            | '\u{e34}'..='\u{e3a}'
            | '\u{e47}'..='\u{e4e}'
            | '\u{1161}'..='\u{11ff}'
            | '\u{1ab0}'..='\u{1aff}'
            | '\u{1dc0}'..='\u{1dff}'
            | '\u{20d0}'..='\u{20ff}'
            | '\u{302a}'..='\u{302f}'
            | '\u{3099}'..='\u{309a}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{fe20}'..='\u{fe2f}'
            | '\u{1f1e6}'..='\u{1f1ff}'
            | '\u{1f3fb}'..='\u{1f3ff}'
    )
}
