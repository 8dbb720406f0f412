//! Which parts of a transcript rewinds hide from the model.
//!
//! A rewind goes back to a place. It hides every later place that was written by then. Hidden messages stay in the full
//! view. Later messages come after them and are shown.

use serde::{Deserialize, Serialize};

use crate::message::Seq;

/// The places that one rewind hides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RewoundRange {
    /// The place that it went back to. Everything after it is hidden.
    pub after: Seq,
    /// The last place that was written when the rewind was made.
    pub through: Seq,
}

impl RewoundRange {
    /// Whether a place is in the range.
    pub fn has(&self, place: Seq) -> bool {
        self.after < place && place <= self.through
    }

    /// Whether the range hides a summary at `place` that replaces all messages up to `stands_for`. If all these
    /// messages are still shown, the summary stays, even if its own place is in the range.
    pub fn has_summary(&self, place: Seq, stands_for: Seq) -> bool {
        place <= self.through && stands_for > self.after
    }
}

/// The rewinds of a transcript, in the order in which they were made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rewinds(Vec<RewoundRange>);

impl Rewinds {
    /// Whether nothing was ever rewound.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The range of each rewind.
    pub fn ranges(&self) -> &[RewoundRange] {
        &self.0
    }

    /// Whether a place is hidden.
    pub fn hide(&self, place: Seq) -> bool {
        self.0.iter().any(|range| range.has(place))
    }

    /// Whether the summary at `place` that replaces all messages up to `stands_for` is hidden.
    pub fn hide_summary(&self, place: Seq, stands_for: Seq) -> bool {
        self.0.iter().any(|range| range.has_summary(place, stands_for))
    }

    /// The rewinds that had been made when a place was written. Later ones do not change what was shown up to there.
    #[must_use]
    pub fn before(&self, place: Seq) -> Self {
        Self(self.0.iter().filter(|range| range.through < place).copied().collect())
    }

    /// The last place of the line of conversation that this place belongs to. `None` if this place is not hidden: then
    /// its line has not ended.
    pub fn end_of_line(&self, place: Seq) -> Option<Seq> {
        self.0.iter().filter(|range| range.has(place)).map(|range| range.through).min()
    }

    /// All rewinds but the last one, and the last one.
    pub fn split_last(&self) -> (Self, Option<RewoundRange>) {
        let mut earlier = self.clone();
        let last = earlier.0.pop();
        (earlier, last)
    }

    /// These rewinds and one more.
    #[must_use]
    pub fn and(mut self, range: RewoundRange) -> Self {
        self.0.push(range);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewinds(ranges: &[(i64, i64)]) -> Rewinds {
        ranges.iter().fold(Rewinds::default(), |all, (after, through)| {
            all.and(RewoundRange { after: Seq(*after), through: Seq(*through) })
        })
    }

    fn shown(rewinds: &Rewinds, through: i64) -> Vec<i64> {
        (1..=through).filter(|place| !rewinds.hide(Seq(*place))).collect()
    }

    #[test]
    fn what_follows_the_place_that_a_rewind_goes_back_to_is_hidden() {
        let all = rewinds(&[(2, 4), (1, 6)]);
        assert_eq!(shown(&all, 8), [1, 7, 8]);
    }

    #[test]
    fn a_place_keeps_the_line_in_which_it_was_said() {
        let all = rewinds(&[(2, 4), (1, 6)]);
        for (place, line, end) in
            [(4, &[1, 2, 3, 4][..], Some(4)), (5, &[1, 2, 5], Some(6)), (6, &[1, 2, 5, 6], Some(6)), (7, &[1, 7], None)]
        {
            assert_eq!(shown(&all.before(Seq(place)), place), line, "{place}");
            assert_eq!(all.end_of_line(Seq(place)), end.map(Seq), "{place}");
        }
    }

    #[test]
    fn a_summary_goes_with_the_messages_that_it_stands_for() {
        let all = rewinds(&[(4, 8)]);
        assert!(!all.hide_summary(Seq(6), Seq(4)), "none of its messages is hidden");
        assert!(all.hide_summary(Seq(6), Seq(5)));
        assert!(!all.hide_summary(Seq(9), Seq(5)), "it was made after the rewind, from what was shown then");
    }
}
