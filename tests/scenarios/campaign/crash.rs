//! How runs end.

/// When a run is killed, or how else it comes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crash {
    /// It ends in order when everything is stored.
    Never,
    /// It ends in order after so many milliseconds, wherever it is.
    Stopped(u64),
    /// When so many appends were asked for, and this one is not written.
    AppendBegun(u64),
    /// When so many appends were written, and nobody was told of this one.
    AppendWritten(u64),
    /// When so many records were emitted, none of the last durable.
    Emitted(u64),
    /// When a worker's frontier has moved so often.
    Passed(u64),
    /// When so many splits were released, and are not assigned again.
    Released(u64),
    /// After so many milliseconds.
    Timed(u64),
    /// It lives on while the next run takes the log over, after so many milliseconds.
    TakenOver(u64),
}
