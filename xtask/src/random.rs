//! Pseudo-random numbers: the same seed gives the same sequence on every machine.

/// A pseudo-random generator (SplitMix64).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// A generator with this seed.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(crate) const fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A number from 0 to 1.
    pub(crate) fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A rank below `end`: the second is half as frequent as the first, the third a third as frequent.
    pub(crate) fn rank(&mut self, end: f64) -> u64 {
        (end.powf(self.part()) as u64).saturating_sub(1)
    }
}
