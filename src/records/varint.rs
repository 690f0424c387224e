//! Numbers as Kafka writes them within records: of variable length, with the sign in the lowest bit.
//!
//! See the [format of record batches](https://kafka.apache.org/documentation/#recordbatch).

/// Takes a number off the front of `bytes`; `None` if they end within it, or if it has more than 64
/// bits.
#[inline]
pub(super) fn take(bytes: &mut &[u8]) -> Option<i64> {
    // Nearly all numbers in a record are lengths and differences of one or two bytes.
    let (number, rest) = match **bytes {
        [first, ref rest @ ..] if first < MORE => (u64::from(first), rest),
        [first, second, ref rest @ ..] if second < MORE => {
            (u64::from(first & !MORE) | u64::from(second) << 7, rest)
        }
        _ => take_long(bytes)?,
    };
    *bytes = rest;
    Some(signed(number))
}

/// The number whose sign is in the lowest bit of `number`.
#[inline]
pub(super) fn signed(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// Set in each byte of a number but its last.
const MORE: u8 = 0x80;

/// A number of whatever length, and what comes behind it.
#[inline(never)]
fn take_long(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (index, byte) in bytes.iter().enumerate().take(10) {
        let part = u64::from(byte & !MORE);
        let shifted = part << (7 * index);
        if shifted >> (7 * index) != part {
            return None;
        }
        number |= shifted;
        if *byte < MORE {
            return Some((number, &bytes[index + 1..]));
        }
    }
    None
}

/// Writes a number behind what is in `bytes`, and says how many bytes it took.
pub(super) fn push(bytes: &mut Vec<u8>, number: i64) -> usize {
    let mut rest = (number << 1 ^ number >> 63).cast_unsigned();
    let before = bytes.len();
    while rest >= 0x80 {
        bytes.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push((rest & 0x7f) as u8);
    bytes.len() - before
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(number: i64, small in -70_i64..70, after in any::<u8>()) {
            for number in [number, small, i64::MIN, i64::MAX] {
                let mut bytes = Vec::new();
                let length = push(&mut bytes, number);
                assert_eq!(bytes.len(), length);
                for cut in 0..length {
                    assert_eq!(take(&mut &bytes[..cut]), None, "{number} cut to {cut}");
                }
                bytes.push(after);

                let mut rest = &bytes[..];
                assert_eq!(take(&mut rest), Some(number));
                assert_eq!(rest, [after]);
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let mut rest = &bytes[..];
            while take(&mut rest).is_some() {}
        }
    }

    /// The numbers of the format's own description, and one that has more than 64 bits.
    #[test]
    fn known_numbers_are_read() {
        let known: [(&[u8], Option<i64>); 7] = [
            (&[0], Some(0)),
            (&[1], Some(-1)),
            (&[2], Some(1)),
            (&[0xac, 0x02], Some(150)),
            (&[0xff; 10], None),
            (
                &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
                Some(i64::MIN),
            ),
            (
                &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
                None,
            ),
        ];
        for (bytes, number) in known {
            assert_eq!(take(&mut &*bytes), number, "{bytes:x?}");
        }
    }
}
