//! What values are made of, and what is done with them.

use serde::Deserialize;

/// What an operator does with a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content {
    /// It looks how long it is.
    Bytes,
    /// It decodes a document of JSON.
    Json,
}

/// A document.
#[derive(Deserialize)]
struct Payment<'a> {
    id: u64,
    account: &'a str,
    amount: u64,
    note: &'a str,
}

impl Content {
    /// A value of about `size` bytes. It is digits after digits, different in each record, so that a codec
    /// finds in it what it finds in text.
    pub(crate) fn write(self, number: u64, size: usize, text: &mut String) {
        text.clear();
        let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let end = match self {
            Self::Bytes => "",
            Self::Json => {
                let (account, amount) = (scattered >> 32, scattered % 100_000);
                text.push_str(&format!(
                    r#"{{"id":{number},"account":"{account:010}","amount":{amount},"note":""#
                ));
                "\"}"
            }
        };
        let digits = format!("{scattered:020}");
        while text.len() < size - end.len() {
            let left = size - end.len() - text.len();
            text.push_str(&digits[..left.min(digits.len())]);
        }
        text.push_str(end);
    }

    /// Does with a value what is to be done, and says how many bytes it has.
    ///
    /// # Panics
    ///
    /// If it is not what it should be.
    #[inline]
    pub(crate) fn take(self, value: &[u8]) -> usize {
        if let Self::Json = self {
            take_json(value);
        }
        value.len()
    }
}

fn take_json(value: &[u8]) {
    match serde_json::from_slice::<Payment<'_>>(value) {
        Ok(payment) => {
            std::hint::black_box((payment.id, payment.account, payment.amount, payment.note));
        }
        Err(error) => panic!("the benchmark writes bad documents: {error}"),
    }
}
