//! A reader that follows from the split's text alone.

use std::fmt::{self, Display, Write};

use super::{Assignor, Plan, Situation};
use crate::split::Split;

/// Gives each split to the reader that a hash of its text says, whoever has it.
///
/// Anybody can tell where a split is from its text and the list of readers, without asking the
/// source. The price: counts are only about equal, and whenever the list of readers changes, which
/// within a run it does when one is drained or refilled, most splits move.
///
/// The hash is FNV-1a with 64 bits over the UTF-8 bytes of what [`Display`] writes of the split, its
/// upper half folded into its lower one by exclusive or. Its remainder by the sum of all capacities
/// counts off readers in their order, each as often as its capacity says.
///
/// The remainder and not rendezvous hashing, which would move the splits of a drained reader alone,
/// because that takes a hash for each pair of split and reader, and because whoever wants few moves
/// does not want this assignor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Static;

impl<S: Split> Assignor<S> for Static {
    fn plan(&self, situation: &Situation<'_, S>) -> Plan {
        let mut total = 0;
        let ends: Vec<u64> = (situation.readers.iter())
            .map(|reader| {
                total += u64::from(reader.capacity.get());
                total
            })
            .collect();
        let of = |split: &S| {
            let place = hash(split) % total;
            ends.partition_point(|end| *end <= place)
        };
        let readers = situation.splits.iter().map(|profile| of(profile.split));
        Plan {
            readers: readers.collect(),
            hot: Vec::new(),
        }
    }
}

/// A 64-bit FNV-1a of what is written to it, without a copy of the text.
struct Fnv(u64);

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Ok(())
    }
}

fn hash(split: &impl Display) -> u64 {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    // Of the two only the split's own `Display` could fail, and then its text is what it wrote.
    write!(hash, "{split}").ok();
    hash.0 ^ (hash.0 >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of the function's reference, folded: a source that is upgraded must not reshuffle.
    #[test]
    fn the_hash_is_the_one_that_is_documented() {
        let folded = |whole: u64| whole ^ (whole >> 32);

        assert_eq!(hash(&""), folded(0xcbf2_9ce4_8422_2325));
        assert_eq!(hash(&"a"), folded(0xaf63_dc4c_8601_ec8c));
        assert_eq!(hash(&"foobar"), folded(0x8594_4171_f739_67e8));
    }
}
