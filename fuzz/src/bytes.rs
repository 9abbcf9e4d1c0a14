//! Decisions from bytes: what is not there any more is zero.

/// A fuzzer's input, read from the front.
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    pub fn bit(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound <= 256 {
            usize::from(self.byte()) % bound.max(1)
        } else {
            self.word() as usize % bound
        }
    }

    /// A number with its small values easy to reach.
    pub fn number(&mut self) -> u64 {
        match self.byte() {
            0xff => self.word(),
            0xfe => u64::MAX - u64::from(self.byte()),
            0xfd => u64::from(self.byte()) << 16,
            small => u64::from(small),
        }
    }

    pub fn word(&mut self) -> u64 {
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(self.take(8)) {
            *to = *from;
        }
        u64::from_le_bytes(word)
    }

    /// At most so many bytes.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}
