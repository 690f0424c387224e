//! What finds splits on the enumerator's behalf.
//!
//! Like a fetcher, a [`SplitDiscovery`] lives on the timely thread and does no I/O there.

use crate::binding::SplitRange;
use crate::epoch::{MetadataEpoch, RequestId};
use crate::health::Health;
use crate::loss::Remains;
use crate::split::Split;

/// Answers what the coordinator asks about metadata and splits.
///
/// # Contract
///
/// The numbers are those that the conformance kit (feature `conformance`) reports.
///
/// * **D1 Never blocks.** Both methods return at once.
/// * **D2 Wakes.** When there is something to poll, it wakes the operator, from any thread.
/// * **D3 Tells the metadata.** The metadata is told without being asked for, and again when it has
///   changed.
/// * **D4 Finds.** Every split that the metadata lists and that exists is found, under the epoch of
///   the request, and no other split is. What was found under an epoch stands under those that follow, as
///   long as all of them list it, and need not be told again.
/// * **D5 Keeps looking.** A split that comes to exist later is found without another request.
/// * **D6 Looks for the latest.** After a newer request to discover, what is found under its epoch is
///   what its metadata lists. What that lists and the metadata before does not is found anew, also if it
///   was listed and found earlier.
/// * **D7 Resolves.** A request to resolve a split is answered once, with its number, its split and
///   the positions that the rules of the split say.
/// * **D8 Knows that it does not know.** What cannot be asked is asked again with back-off until it
///   is answered or the metadata does not list it any more. A failure to ask is a [`Health`], never
///   an answer that something is not there.
/// * **D9 Notices what is gone.** A split that the metadata lists and that ceases to exist is gone.
/// * **D10 Bounded.** Answers that nobody polled are bounded.
/// * **D11 Checks.** A request to check is answered once, with its number and with exactly those of its
///   ranges that cannot be read from their first record on any more.
/// * **D12 Identifies.** Each split of a request to identify is answered with its number, by what is asked
///   after the request came and never by what was known before. What cannot be asked is answered later;
///   what nobody can tell is `None`, at once. That the metadata does not list a split, or ceases to, is no
///   reason to be silent about it.
/// * **D13 Judges.** A request to judge is answered once, with its number, its split and what there is of
///   it.
/// * **D14 Knows when it has found all.** Once everything that the metadata lists was asked for and
///   answered, and what exists of it was found, that is said under the latest epoch, once at least. As
///   long as something could not be asked for it is not.
/// * **D15 Says where splits end.** A request for the end of a split is answered once, with its number, its
///   split and where it ends by what is asked after the request came. One that is repeated replaces the
///   one before.
pub trait SplitDiscovery<S: Split>: 'static {
    /// Begins to find out what `request` asks.
    fn request(&mut self, request: DiscoveryRequest<S>);

    /// The next answer, if there is one.
    fn poll(&mut self) -> Option<DiscoveryEvent<S>>;

    /// Hears up to where `split` is bound: a binding that ends there, or that its reading starts there,
    /// is durable.
    ///
    /// Nothing has to be done about it, which is the default; it is for who tells others how far the
    /// source is. It is always where a split is bound by what is in force in the log, and never more:
    ///
    /// * When the log is open, this is called for all that is in it.
    /// * A run that goes back ([`At`](crate::resume::Resume::At)) tells where each split goes on, which
    ///   can be an earlier position, once the log says that it went back, and not before. One that reads
    ///   afresh tells nothing until a split has its start again.
    /// * A run that gives ticks again ([`Replay`](crate::resume::Resume::Replay)) tells up to where splits
    ///   were bound before. What is given again is not bound again, so that nothing goes back.
    fn bound(&mut self, _split: &S, _position: &S::Position) {}

    /// Hears what `split` is, as the log says: when the log is open for all that is in it, and whenever it
    /// is durable that more is known.
    ///
    /// Nothing has to be done about it, which is the default; it is for who compares with what others say.
    fn known(&mut self, _split: &S, _identity: &S::Identity) {}

    /// Hears that the log knows nothing of `split` any more.
    ///
    /// Nothing has to be done about it, which is the default; it is for who keeps what it
    /// [knows](Self::known), which would grow with every split that there ever was.
    fn forgotten(&mut self, _split: &S) {}
}

impl<S: Split> SplitDiscovery<S> for Box<dyn SplitDiscovery<S>> {
    fn request(&mut self, request: DiscoveryRequest<S>) {
        (**self).request(request);
    }

    fn poll(&mut self) -> Option<DiscoveryEvent<S>> {
        (**self).poll()
    }

    fn bound(&mut self, split: &S, position: &S::Position) {
        (**self).bound(split, position);
    }

    fn known(&mut self, split: &S, identity: &S::Identity) {
        (**self).known(split, identity);
    }

    fn forgotten(&mut self, split: &S) {
        (**self).forgotten(split);
    }
}

/// What the coordinator asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DiscoveryRequest<S: Split> {
    /// From here on, find the splits that `metadata` lists, again and again, and report under `epoch`
    /// what was not found since it is listed.
    Discover {
        /// The epoch that the coordinator gave this metadata.
        epoch: MetadataEpoch,
        /// What to look for.
        metadata: S::Metadata,
    },
    /// Find where reading `split` starts, and where it stops, by its rules.
    Resolve {
        /// Returned with the answer.
        request: RequestId,
        /// The split, which the latest metadata lists.
        split: S,
        /// Beside what it appeared, which can decide about its rule.
        appeared: Appeared,
    },
    /// Find out where `split` ends now: after the last record that there is to be read.
    End {
        /// Returned with the answer.
        request: RequestId,
        /// The split, which the latest metadata lists, and whose start is known.
        split: S,
    },
    /// Find out whether ranges can still be read that were read before.
    Check {
        /// Returned with the answer.
        request: RequestId,
        /// The ranges, of splits that the latest metadata lists.
        ranges: Vec<SplitRange<S>>,
    },
    /// Find out what splits are, now.
    Identify {
        /// Returned with the answers.
        request: RequestId,
        /// One split for each group and identity that is known.
        splits: Vec<S>,
    },
    /// Find out what there is of a split whose next record is not there.
    Judge {
        /// Returned with the answer.
        request: RequestId,
        /// The split.
        split: S,
    },
}

/// Beside what a split appeared.
///
/// What comes later can have another rule than what was there from the beginning: what was written
/// between its creation and its discovery may have to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Appeared {
    /// Beside nothing: the first metadata that the log knows lists its group.
    #[default]
    AtFirst,
    /// Beside other places: the first metadata lists no group of its place.
    WithPlace,
    /// Beside other groups of its place: the first metadata does not list its group.
    WithGroup,
    /// Beside other splits of its group, which were known before, in this run or an earlier one.
    InGroup,
}

/// What a discovery found out.
#[derive(Clone, Debug)]
pub enum DiscoveryEvent<S: Split> {
    /// The metadata service answered; the answer may equal the one before.
    Metadata(S::Metadata),
    /// The metadata service gave its last answer again. Whoever tells every answer as
    /// [`Metadata`](Self::Metadata) need not tell this.
    MetadataRepeated,
    /// The metadata service will never give another answer than its last one.
    MetadataSettled,
    /// The metadata service did not answer, and is asked again. What is known stays in force.
    MetadataFailed,
    /// These splits exist. Splits that are not named may exist too.
    Found {
        /// The metadata epoch they were looked for under; all since then list them.
        epoch: MetadataEpoch,
        /// The splits.
        splits: Vec<FoundSplit<S>>,
    },
    /// These splits do not exist any more, although the metadata lists them.
    Gone {
        /// The metadata epoch they were looked for under; all since then list them.
        epoch: MetadataEpoch,
        /// The splits.
        splits: Vec<S>,
    },
    /// All that the metadata of this epoch lists was asked for, and what exists of it was found.
    AllFound {
        /// The metadata epoch that lists it.
        epoch: MetadataEpoch,
    },
    /// Where reading a split starts, and where it stops.
    Resolved {
        /// The request that is answered.
        request: RequestId,
        /// The split.
        split: S,
        /// Where its reading starts.
        start: S::Position,
        /// Where its reading stops: nothing at this position or past it is read. `None`: nowhere.
        stop: Option<S::Position>,
        /// The rules that say so, in words for a person.
        rule: String,
    },
    /// Where a split ends.
    End {
        /// The request that is answered.
        request: RequestId,
        /// The split.
        split: S,
        /// The position after its last record.
        end: S::Position,
    },
    /// Which of the ranges of a check cannot be read any more.
    Checked {
        /// The request that is answered.
        request: RequestId,
        /// Each that cannot, and why, in words for a person.
        lost: Vec<(SplitRange<S>, String)>,
    },
    /// What splits are.
    Identified {
        /// The request that is answered, maybe in parts.
        request: RequestId,
        /// The splits, each with what it is; `None` if nobody can tell.
        splits: Vec<(S, Option<S::Identity>)>,
    },
    /// What there is of a split.
    Judged {
        /// The request that is answered.
        request: RequestId,
        /// The split.
        split: S,
        /// What there is.
        remains: Remains<S>,
    },
    /// Something that a person should know.
    Health(Health),
}

/// A split that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundSplit<S: Split> {
    /// The split.
    pub split: S,
    /// The evidence of what it is.
    pub identity: S::Identity,
    /// Where it can be read from: the best place first. Empty if that is not known.
    pub racks: Vec<String>,
}

impl<S: Split> FoundSplit<S> {
    /// A split of which it is not known where it can be read from.
    pub fn new(split: S, identity: S::Identity) -> Self {
        Self {
            split,
            identity,
            racks: Vec::new(),
        }
    }
}
