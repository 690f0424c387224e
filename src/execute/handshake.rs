//! What two processes say to each other before timely does.
//!
//! The one that connects says which run it is of, how many processes and workers the run has, who it
//! is and whom it means. The other one answers with a verdict. Both messages have a fixed length and
//! begin with bytes that nothing else begins with, so that whatever else comes to the port is told
//! apart by its first bytes.

use std::fmt::{self, Display};

const HELLO: [u8; 8] = *b"TKHELLO\x01";
const ANSWER: [u8; 8] = *b"TKANSWR\x01";

pub(super) const HELLO_BYTES: usize = 48;
pub(super) const ANSWER_BYTES: usize = 32;

/// What is the same in all processes of one run and differs between two runs.
///
/// All zero where nobody gave the run a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunToken(pub(crate) [u8; 16]);

/// What all processes of a run have to agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) run: RunToken,
    pub(super) processes: u32,
    /// Of each process.
    pub(super) workers: u32,
}

/// What the process that connects says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) shape: Shape,
    pub(super) from: u32,
    pub(super) to: u32,
}

/// What the other process answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Welcome,
    /// It belongs to another run.
    OtherRun,
    /// It was started for another number of processes or workers, or to meet somebody else.
    OtherShape,
}

impl Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Welcome => "it is welcome",
            Self::OtherRun => "it belongs to another run",
            Self::OtherShape => {
                "it was started with other numbers of processes or workers, or other addresses"
            }
        })
    }
}

impl Hello {
    pub(super) fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..8].copy_from_slice(&HELLO);
        bytes[8..24].copy_from_slice(&self.shape.run.0);
        let numbers = [self.shape.processes, self.shape.workers, self.from, self.to];
        for (index, number) in numbers.into_iter().enumerate() {
            let at = 24 + 4 * index;
            bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// The message that `bytes` are; `None` if they are something else.
    pub(super) fn decode(bytes: &[u8; HELLO_BYTES]) -> Option<Self> {
        if bytes[..8] != HELLO || bytes[40..] != [0; 8] {
            return None;
        }
        let number = |at: usize| {
            let mut number = [0; 4];
            number.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(number)
        };
        let mut run = [0; 16];
        run.copy_from_slice(&bytes[8..24]);
        Some(Self {
            shape: Shape {
                run: RunToken(run),
                processes: number(24),
                workers: number(28),
            },
            from: number(32),
            to: number(36),
        })
    }

    /// What the process `index` of `shape` answers to this.
    pub(super) fn verdict(&self, shape: &Shape, index: u32) -> Verdict {
        if self.shape.run != shape.run {
            return Verdict::OtherRun;
        }
        let fits = self.shape == *shape && self.to == index;
        if fits && self.from > index && self.from < shape.processes {
            Verdict::Welcome
        } else {
            Verdict::OtherShape
        }
    }
}

impl Verdict {
    /// The answer, which does not tell the run to somebody who is not of it.
    pub(super) fn encode(self) -> [u8; ANSWER_BYTES] {
        let mut bytes = [0; ANSWER_BYTES];
        bytes[..8].copy_from_slice(&ANSWER);
        bytes[8] = match self {
            Self::Welcome => 1,
            Self::OtherRun => 2,
            Self::OtherShape => 3,
        };
        bytes
    }

    /// The answer that `bytes` are; `None` if they are something else.
    pub(super) fn decode(bytes: &[u8; ANSWER_BYTES]) -> Option<Self> {
        if bytes[..8] != ANSWER || bytes[9..] != [0; ANSWER_BYTES - 9] {
            return None;
        }
        match bytes[8] {
            1 => Some(Self::Welcome),
            2 => Some(Self::OtherRun),
            3 => Some(Self::OtherShape),
            _ => None,
        }
    }
}

/// Whether `bytes` can be the beginning of a [`Hello`].
pub(super) fn may_be_hello(bytes: &[u8]) -> bool {
    let common = bytes.len().min(HELLO.len());
    bytes[..common] == HELLO[..common]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        Hello {
            shape: Shape {
                run: RunToken([7; 16]),
                processes: 3,
                workers: 2,
            },
            from: 2,
            to: 1,
        }
    }

    #[test]
    fn what_is_said_is_what_is_heard() {
        let hello = hello();

        assert_eq!(Hello::decode(&hello.encode()), Some(hello));
        assert_eq!(hello.verdict(&hello.shape, 1), Verdict::Welcome);
        for verdict in [Verdict::Welcome, Verdict::OtherRun, Verdict::OtherShape] {
            assert_eq!(Verdict::decode(&verdict.encode()), Some(verdict));
        }
    }

    #[test]
    fn bytes_of_anything_else_are_nothing() {
        let mut bytes = hello().encode();
        bytes[0] ^= 1;

        assert_eq!(Hello::decode(&bytes), None);
        assert!(!may_be_hello(b"G"));
        assert!(may_be_hello(b""));
        assert_eq!(Verdict::decode(&[0; ANSWER_BYTES]), None);
    }

    #[test]
    fn whoever_is_of_another_run_or_shape_is_refused() {
        let shape = hello().shape;
        let other_run = Shape {
            run: RunToken([8; 16]),
            ..shape
        };
        let fewer = Shape {
            processes: 2,
            ..shape
        };

        assert_eq!(hello().verdict(&other_run, 1), Verdict::OtherRun);
        assert_eq!(hello().verdict(&fewer, 1), Verdict::OtherShape);
        assert_eq!(hello().verdict(&shape, 0), Verdict::OtherShape);
        let myself = Hello { from: 1, ..hello() };
        assert_eq!(myself.verdict(&shape, 1), Verdict::OtherShape);
    }
}
