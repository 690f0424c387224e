//! Numbers that look random and depend on a seed alone.

/// Sebastiano Vigna's `SplitMix64`: one word of state, and good enough for schedules.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The numbers of one thing, say one link, under `seed`: what another thing draws, or that it is
    /// not there, changes nothing for this one.
    pub(crate) fn of(seed: u64, thing: u64) -> Self {
        let mut random = Self(seed);
        let mixed = random.draw() ^ thing.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        Self(mixed)
    }

    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }

    /// An index below `bound`, which is not zero.
    pub(crate) fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).expect("below an usize")
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }
}
