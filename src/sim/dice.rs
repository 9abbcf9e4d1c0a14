//! Repeatable dice.

/// A small generator (`SplitMix64`): one word of state, so that it can be stored, copied and
/// named in a test report. Not for secrets.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Dice that fall the same way for the same `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which must not be zero. The bias is below 2^-32 for small bounds.
    pub fn below(&mut self, bound: usize) -> usize {
        let wide = u128::from(self.word()) * bound as u128;
        usize::try_from(wide >> 64).expect("a product of a fraction and a usize fits a usize")
    }

    /// True once in `n` throws.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.word().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    /// New dice that fall independently of these.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.word())
    }
}
