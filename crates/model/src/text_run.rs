//! Pieces of a streamed answer's text that are handled together.

/// Consecutive pieces of an answer's text, in one buffer. No piece is empty.
///
/// Listeners are shown each piece as an event of its own. The buffer saves an allocation for each of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextRun {
    whole: String,
    /// Where each piece ends, except the last.
    inner_ends: Vec<usize>,
}

impl TextRun {
    /// Adds a piece. An empty one is left out.
    pub fn push(&mut self, piece: &str) {
        if piece.is_empty() {
            return;
        }
        if !self.whole.is_empty() {
            self.inner_ends.push(self.whole.len());
        }
        self.whole.push_str(piece);
    }

    /// Whether it has no piece.
    pub const fn is_empty(&self) -> bool {
        self.whole.is_empty()
    }

    /// The pieces as one text.
    pub fn whole(&self) -> &str {
        &self.whole
    }

    /// How many pieces it has.
    pub fn count(&self) -> usize {
        self.inner_ends.len() + usize::from(!self.is_empty())
    }

    /// The pieces, in order.
    pub fn pieces(&self) -> impl Iterator<Item = &str> {
        let ends = self.inner_ends.iter().copied().chain((!self.is_empty()).then_some(self.whole.len()));
        ends.scan(0, |start, end| {
            let piece = self.whole.get(*start..end);
            *start = end;
            piece
        })
    }
}

impl<'a> FromIterator<&'a str> for TextRun {
    fn from_iter<T: IntoIterator<Item = &'a str>>(pieces: T) -> Self {
        let mut run = Self::default();
        pieces.into_iter().for_each(|piece| run.push(piece));
        run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_gives_its_pieces_back_without_the_empty_ones() {
        for pieces in [&[][..], &["a"], &["Grü", "ß", " dich"], &["", "a", "", "b", ""]] {
            let run: TextRun = pieces.iter().copied().collect();
            let expected: Vec<&str> = pieces.iter().copied().filter(|piece| !piece.is_empty()).collect();
            assert_eq!(run.pieces().collect::<Vec<_>>(), expected);
            assert_eq!((run.count(), run.is_empty()), (expected.len(), expected.is_empty()));
            assert_eq!(run.whole(), pieces.concat());
        }
    }
}
