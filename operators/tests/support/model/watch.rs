//! Watches the protocol between the coordinator and its readers, message by message.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use timely_splits::coordinator::Tables;
use timely_splits::epoch::{Incarnation, MetadataEpoch, PlanEpoch, ReaderId, SplitEpoch};
use timely_splits::fetcher::Piece;
use timely_splits::health::FailureKind;
use timely_splits::protocol::{Assignment, Command, Directive, Report};
use timely_splits::split::Metadata;
use timely_splits::tick::Tick;

use super::Settings;
use crate::forest::{Bud, Forest, Leaf};

/// What one run of the source has said, by a second, simpler account of it.
///
/// # Invariants
///
/// What it panics about, besides what the history does:
///
/// * **I1** A split is assigned only when its last owner has handed it back.
/// * **I3** Epochs of metadata and splits only grow.
/// * **I4** Nothing is assigned that is not listed, paused or frozen.
/// * **I5** Nothing is emitted that the reader's metadata does not list.
/// * **I6** Nothing is emitted under another assignment than the split's last.
/// * **I11** Queues and tables are bounded.
/// * Capabilities and what is published pass a tick only when it is durable, and nothing is read
///   after the last one.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    pub(crate) incarnation: Incarnation,
    metadata: BTreeMap<ReaderId, (MetadataEpoch, Forest)>,
    adopted: Option<(MetadataEpoch, Forest)>,
    /// Who has each split, from the coordinator's assignment until it hears that it is over.
    owners: BTreeMap<Leaf, (ReaderId, SplitEpoch)>,
    revoked: BTreeSet<(Leaf, SplitEpoch)>,
    split_epochs: BTreeMap<Leaf, SplitEpoch>,
    paused: BTreeSet<Leaf>,
    /// What was paused before somebody last asked for a pause, or its end.
    paused_before: BTreeSet<Leaf>,
    /// Who is to prepare for each split, and by when.
    preparing: BTreeMap<Leaf, (ReaderId, Duration)>,
    /// Splits of which it was asked where they end.
    leaving: BTreeSet<Leaf>,
    /// Splits that were said not to exist, once at least.
    gone: BTreeSet<Leaf>,
    drained: BTreeSet<ReaderId>,
    stopping: bool,
    /// Readers that were told the last tick.
    over: BTreeSet<ReaderId>,
    /// Opened, and not durable.
    undurable: BTreeSet<Tick>,
    plan: PlanEpoch,
    /// The most splits that were known at once.
    splits_max: usize,
    /// How many splits were taken from a reader that could have kept them.
    pub(crate) revokes: u64,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self {
            incarnation: Incarnation::default(),
            metadata: BTreeMap::new(),
            adopted: None,
            owners: BTreeMap::new(),
            revoked: BTreeSet::new(),
            split_epochs: BTreeMap::new(),
            paused: BTreeSet::new(),
            paused_before: BTreeSet::new(),
            preparing: BTreeMap::new(),
            leaving: BTreeSet::new(),
            gone: BTreeSet::new(),
            drained: BTreeSet::new(),
            stopping: false,
            over: BTreeSet::new(),
            undurable: BTreeSet::new(),
            plan: PlanEpoch::default(),
            splits_max: 0,
            revokes: 0,
        }
    }

    pub(crate) fn owner(&self, leaf: Leaf) -> Option<ReaderId> {
        self.owners.get(&leaf).map(|(reader, _)| *reader)
    }

    pub(crate) fn is_paused(&self, leaf: Leaf) -> bool {
        self.paused.contains(&leaf)
    }

    /// Splits that were said not to exist, once at least.
    pub(crate) fn gone(&self) -> &BTreeSet<Leaf> {
        &self.gone
    }

    pub(crate) fn drained(&self) -> impl Iterator<Item = ReaderId> {
        self.drained.iter().copied()
    }

    /// The metadata epoch that the coordinator adopted last, and what it says.
    pub(crate) fn adopted(&self) -> Option<&(MetadataEpoch, Forest)> {
        self.adopted.as_ref()
    }

    /// The metadata epoch that a reader heard of last, and what it says.
    pub(crate) fn heard(&self, reader: usize) -> Option<&(MetadataEpoch, Forest)> {
        self.metadata.get(&ReaderId(reader))
    }

    /// Whether a revocation was not answered.
    pub(crate) fn is_awaiting_release(&self) -> bool {
        !self.revoked.is_empty()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping
    }

    pub(crate) fn adopts(&mut self, epoch: MetadataEpoch, forest: &Forest) {
        self.preparing.retain(|leaf, _| forest.lists(leaf));
        let before = self.adopted.replace((epoch, forest.clone()));
        assert!(
            before.is_none_or(|(before, _)| before < epoch),
            "I3: metadata epoch {epoch} is adopted again"
        );
    }

    /// A run begins, and the log says what is paused.
    pub(crate) fn restored(&mut self, paused: &BTreeSet<Leaf>) {
        self.paused.clone_from(paused);
    }

    /// A split is known from here on, and nothing that was asked of it before is.
    pub(crate) fn finds(&mut self, leaf: Leaf) {
        self.paused.remove(&leaf);
    }

    /// It is asked where a split ends.
    pub(crate) fn leaves(&mut self, leaf: Leaf) {
        self.leaving.insert(leaf);
    }

    /// A split is read as another one from here on.
    pub(crate) fn starts_over(&mut self, leaf: Leaf, other: Leaf) {
        if self.paused.remove(&leaf) {
            self.paused.insert(other);
        }
        if self.gone.contains(&leaf) {
            self.gone.insert(other);
        }
    }

    /// A split does not exist any more, at least for now.
    pub(crate) fn vanishes(&mut self, leaf: Leaf) {
        self.gone.insert(leaf);
    }

    /// A reader is to prepare for a split that another one has.
    pub(crate) fn prepares(&mut self, reader: ReaderId, leaf: Leaf, due: Duration) {
        let owner = self.owner(leaf);
        assert!(
            owner.is_some_and(|owner| owner != reader),
            "reader {reader} is to prepare for {leaf}, which {owner:?} has"
        );
        self.preparing.insert(leaf, (reader, due));
    }

    /// A split is asked back: whoever is to have it is prepared, or nobody is to have it.
    pub(crate) fn revokes(&mut self, leaf: Leaf, now: Duration) {
        let Some((reader, due)) = self.preparing.remove(&leaf) else {
            return;
        };
        let left = [&self.paused, &self.gone, &self.leaving];
        let unwanted = left.iter().any(|splits| splits.contains(&leaf));
        assert!(
            now >= due || unwanted,
            "{leaf} is revoked although reader {reader} is not prepared"
        );
    }

    /// What was last asked to be paused or resumed cannot be: it is not known.
    pub(crate) fn refuses_pause(&mut self) {
        self.paused.clone_from(&self.paused_before);
    }

    pub(crate) fn planned(&mut self, plan: PlanEpoch) {
        assert!(self.plan <= plan, "I3: plan epoch {plan} comes again");
        self.plan = plan;
    }

    /// The coordinator sends a directive. `next` is where a split goes on, as far as its start is
    /// durable.
    pub(crate) fn sends(
        &mut self,
        reader: ReaderId,
        directive: &Directive<Leaf>,
        next: impl Fn(&Leaf) -> Option<u64>,
    ) {
        match directive {
            Directive::Assign(assignment) => {
                let expected = next(&assignment.split);
                assert_eq!(
                    Some(assignment.start),
                    expected,
                    "I7: {} is assigned",
                    assignment.split
                );
                self.assigns(reader, assignment);
            }
            Directive::Revoke { split, split_epoch } => {
                self.revokes += 1;
                let owner = self.owners.get(split);
                assert_eq!(
                    owner,
                    Some(&(reader, *split_epoch)),
                    "I1: {split} is revoked from who has it"
                );
                self.revoked.insert((*split, *split_epoch));
            }
            Directive::Metadata {
                incarnation, epoch, ..
            } => {
                assert_eq!(*incarnation, self.incarnation, "I3: the incarnation");
                let adopted = self.adopted.as_ref().map(|(adopted, _)| *adopted);
                assert_eq!(adopted, Some(*epoch), "I3: the metadata epoch that is sent");
            }
            Directive::Prepare(_)
            | Directive::Tick { .. }
            | Directive::Durable(_)
            | Directive::Emit(_)
            | Directive::BeginReplay(_)
            | Directive::Replay(_)
            | Directive::Explained(_)
            | Directive::Reject { .. } => {}
        }
    }

    fn assigns(&mut self, reader: ReaderId, assignment: &Assignment<Leaf>) {
        let (leaf, epoch) = (assignment.split, assignment.split_epoch);
        let owner = self.owners.insert(leaf, (reader, epoch));
        assert_eq!(owner, None, "I1: {leaf} is assigned although it is owned");
        let before = self.split_epochs.insert(leaf, epoch);
        assert!(
            before.is_none_or(|before| before < epoch),
            "I3: {leaf}#{epoch} is assigned after #{before:?}"
        );
        let adopted = self.adopted.as_ref();
        let listed = adopted.is_some_and(|(in_force, forest)| {
            *in_force == assignment.metadata_epoch && forest.lists(&leaf)
        });
        assert!(
            listed,
            "I4: {leaf} is assigned under metadata epoch {}, expected one in force that lists it",
            assignment.metadata_epoch
        );
        assert!(
            !self.paused.contains(&leaf),
            "I4: {leaf} is assigned although it is paused"
        );
        assert!(
            !self.stopping,
            "I4: {leaf} is assigned before the last tick"
        );
    }

    /// A directive reaches its reader.
    pub(crate) fn receives(&mut self, reader: ReaderId, directive: &Directive<Leaf>) {
        match directive {
            Directive::Metadata {
                epoch, metadata, ..
            } => {
                let before = self.metadata.insert(reader, (*epoch, metadata.clone()));
                assert!(
                    before.is_none_or(|(before, _)| before < *epoch),
                    "I3: reader {reader} hears of metadata epoch {epoch} late"
                );
            }
            Directive::Tick { last, .. } => {
                if *last {
                    self.over.insert(reader);
                }
            }
            Directive::Assign(_)
            | Directive::Prepare(_)
            | Directive::Revoke { .. }
            | Directive::Durable(_)
            | Directive::Emit(_)
            | Directive::BeginReplay(_)
            | Directive::Replay(_)
            | Directive::Explained(_)
            | Directive::Reject { .. } => {}
        }
    }

    /// The coordinator hears a report.
    pub(crate) fn hears(&mut self, report: &Report<Leaf>) {
        let mut over = |reader: ReaderId, split: Leaf, split_epoch: SplitEpoch| {
            if self.owners.get(&split) == Some(&(reader, split_epoch)) {
                self.owners.remove(&split);
            }
            self.revoked.remove(&(split, split_epoch));
        };
        match report {
            Report::Released {
                reader,
                split,
                split_epoch,
                ..
            }
            | Report::Lost {
                reader,
                split,
                split_epoch,
                ..
            } => over(*reader, *split, *split_epoch),
            Report::FetcherDown {
                reader,
                split,
                split_epoch,
                kind,
                ..
            } => {
                if *kind == FailureKind::Definite {
                    over(*reader, *split, *split_epoch);
                }
            }
            Report::Prepared { reader, split } => {
                let asked = self.preparing.get(split);
                if asked.is_some_and(|(asked, _)| asked == reader) {
                    self.preparing.remove(split);
                }
            }
            Report::Command(Command::Pause(leaf)) => {
                self.paused_before.clone_from(&self.paused);
                self.paused.insert(*leaf);
            }
            Report::Command(Command::Resume(leaf)) => {
                self.paused_before.clone_from(&self.paused);
                self.paused.remove(leaf);
            }
            Report::Command(Command::Drain(reader)) => {
                self.drained.insert(*reader);
            }
            Report::Command(Command::Refill(reader)) => {
                self.drained.remove(reader);
            }
            Report::Command(Command::Stop) => self.stopping = true,
            Report::Command(_)
            | Report::Hello { .. }
            | Report::Replayed { .. }
            | Report::Closed { .. }
            | Report::Progress { .. }
            | Report::Full { .. } => {}
        }
    }

    /// A reader emits a piece.
    pub(crate) fn emits(&self, reader: ReaderId, piece: &Piece<Leaf, Bud>) {
        let leaf = piece.split;
        let listed = (self.metadata.get(&reader)).is_some_and(|(_, forest)| forest.lists(&leaf));
        assert!(
            listed,
            "I5: reader {reader} emits {leaf}, which its metadata does not list"
        );
        assert_eq!(
            self.owners.get(&leaf),
            Some(&(reader, piece.split_epoch)),
            "I6: reader {reader} emits {leaf}#{}, whose owner is",
            piece.split_epoch
        );
        assert!(
            !self.over.contains(&reader),
            "reader {reader} emits {leaf} after the last tick"
        );
    }

    /// Readers are told to go on in a tick.
    pub(crate) fn opened(&mut self, tick: Tick, waiting_max: usize) {
        self.undurable.insert(tick);
        let waiting = self.undurable.len() - 1;
        assert!(
            waiting <= waiting_max,
            "I11: {waiting} ticks wait for the log"
        );
    }

    /// A tick is durable, or passes without a binding in the log.
    pub(crate) fn bound(&mut self, tick: Tick) {
        self.undurable.remove(&tick);
    }

    /// Whoever holds back the frontier lets it pass everything before `tick`, or everything.
    pub(crate) fn passes(&self, who: &str, tick: Option<Tick>) {
        let held = self.undurable.first().copied();
        let durable = match tick {
            Some(tick) => held.is_none_or(|held| tick <= held),
            None => held.is_none(),
        };
        assert!(
            durable,
            "time: {who} lets the frontier pass to {tick:?}, but {held:?} is not durable"
        );
    }

    /// The sizes of the coordinator's queues and tables after something happened.
    pub(crate) fn bounds(&mut self, tables: Tables, intentions: usize, settings: &Settings) {
        let readers = settings.coordinator.readers;
        self.splits_max = self.splits_max.max(tables.splits);
        let splits = self.splits_max;
        let waiting = settings.coordinator.ticks_waiting_max;
        let bounds = [
            (
                "intentions at once",
                intentions,
                8 * (splits + readers) + 16,
            ),
            ("intentions left", tables.intentions, 0),
            (
                "records to append",
                tables.to_append,
                (5 + waiting) * splits + 2 * waiting + 5,
            ),
            ("ticks that wait", tables.ticks_waiting, waiting),
            ("positions kept", tables.kept, tables.splits),
            ("absent splits", tables.absent, tables.kept),
            ("deadlines", tables.deadlines, tables.splits),
            ("unsettled splits", tables.unsettled, 2 * splits + 2),
            ("seconds of moves", tables.moves, 61),
            ("leaving splits", tables.leaving, tables.splits),
            ("splits asked about", tables.identifying, splits),
        ];
        for (what, size, bound) in bounds {
            assert!(
                size <= bound,
                "I11: {size} {what}, expected {bound} at most"
            );
        }
    }
}
