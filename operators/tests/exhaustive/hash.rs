//! Fingerprints of states.

use std::hash::{Hash, Hasher};

/// Two odd numbers without a pattern: digits of the golden ratio and of pi.
const FACTORS: (u64, u64) = (0x9e37_79b9_7f4a_7c15, 0x2436_0d4c_1bbf_1d33);

/// A quick hash that is the same in every run.
#[derive(Clone, Copy, Debug)]
struct Mixer(u64);

impl Mixer {
    fn mix(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value ^ FACTORS.1) * u128::from(FACTORS.0);
        let low = u64::try_from(product & u128::from(u64::MAX)).unwrap_or(0);
        let high = u64::try_from(product >> 64).unwrap_or(0);
        self.0 = (low ^ high).wrapping_add(self.0.rotate_left(23));
    }
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        let mut last = *self;
        last.mix(FACTORS.0);
        last.mix(FACTORS.1);
        last.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.mix(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.mix(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64);
    }
}

/// A number that tells states apart; two of a million differ but for a chance of one in ten millions.
pub(crate) fn fingerprint(state: &impl Hash) -> u64 {
    let mut mixer = Mixer(FACTORS.1);
    state.hash(&mut mixer);
    mixer.finish()
}
