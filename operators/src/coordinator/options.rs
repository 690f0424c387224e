//! What the coordinator is told once.

use std::time::Duration;

use super::answers::{FailureThreshold, ShrinkGuard};
use crate::loss::LossPolicies;
use crate::resume::Resume;

/// What the coordinator is told once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoordinatorOptions {
    /// How many readers there are.
    pub readers: usize,
    /// Where to go on if the log has records.
    pub resume: Resume,
    /// Whether the source ends by itself once all splits are read to their stops: those that the first
    /// complete search finds.
    pub bounded: bool,
    /// How long a tick stays open.
    pub tick_interval: Duration,
    /// How many closed ticks may wait to become durable; then the open one stays open.
    pub ticks_waiting_max: usize,
    /// How far ahead of the open tick ticks are reserved in the log, and up to sixteen times as far if it
    /// is slow. As far may a run that reads nothing go on after another one took over its log.
    pub reserve_ahead: Duration,
    /// How many split epochs are reserved in the log ahead of those that were assigned: so many times
    /// about can one split move while an append is under way.
    pub epochs_ahead: u64,
    /// After how many ticks the log gets all that a restart needs, so that it can drop what is older.
    pub snapshot_every: u32,
    /// After how many ranges it gets it at the latest, or after sixteen times the splits if that is more:
    /// many splits that move in every tick would otherwise make the next start read gigabytes.
    pub snapshot_ranges: usize,
    /// How long the assignor waits for more to change after something has.
    pub plan_debounce: Duration,
    /// How long after a change of metadata no split is taken from its reader for balance: what the
    /// change removes is gone at once, and what it adds is found by and by. Further changes extend it
    /// to five times as long at most; what a person asks for is done at once.
    pub calm_for: Duration,
    /// How often the assignor runs although nothing changed, for policies that look at loads;
    /// `None` is as often as the assignor says.
    pub plan_interval: Option<Duration>,
    /// How long the discovery may take to say where a split starts before it is asked again.
    pub start_deadline: Duration,
    /// How long a reader may take to release a split before a person is told.
    pub release_deadline: Duration,
    /// How long the position of a split is kept that is not listed.
    pub kept_for: Duration,
    /// How many positions of splits that are not listed are kept; beyond it the oldest goes.
    pub kept_max: usize,
    /// When an answer of the metadata service that loses much is held back; `None` never.
    pub shrink_guard: Option<ShrinkGuard>,
    /// How many failures of the metadata service in a row end the source; `None`: none ever does.
    pub failure_threshold: Option<FailureThreshold>,
    /// How long the metadata service may not answer before a person is told how old what is in force is;
    /// `None`: for ever.
    pub stale_after: Option<Duration>,
    /// Whether a reader prepares for a split before the one that has it is asked to release it, so
    /// that the split is not without a reader while that one connects.
    pub prepare: bool,
    /// How long a reader may take to prepare for a split before it is given it nevertheless.
    pub prepare_deadline: Duration,
    /// How long an answer what splits are holds: before a tick becomes durable, it is asked about those that
    /// moved in it unless it was asked within this time. Zero asks for each tick; `None` never, which is
    /// for sources that cannot tell.
    pub identify_every: Option<Duration>,
    /// How long that answer is waited for at most. A tick becomes durable without it then, which is told,
    /// and so do those that follow until it comes.
    pub identify_within: Duration,
    /// What is done about records that are no longer there, where the metadata does not say it.
    pub losses: LossPolicies,
}

impl CoordinatorOptions {
    /// Options with their defaults, for this many readers.
    #[must_use]
    pub fn new(readers: usize) -> Self {
        Self {
            readers,
            resume: Resume::Continue,
            bounded: false,
            tick_interval: Duration::from_millis(100),
            ticks_waiting_max: 4,
            reserve_ahead: Duration::from_secs(10),
            epochs_ahead: 1_000,
            snapshot_every: 6_000,
            snapshot_ranges: 100_000,
            plan_debounce: Duration::ZERO,
            calm_for: Duration::from_secs(2),
            plan_interval: None,
            start_deadline: Duration::from_secs(60),
            release_deadline: Duration::from_secs(10),
            kept_for: Duration::from_secs(7 * 24 * 60 * 60),
            kept_max: 100_000,
            shrink_guard: None,
            failure_threshold: None,
            stale_after: None,
            prepare: false,
            prepare_deadline: Duration::from_secs(1),
            identify_every: None,
            identify_within: Duration::from_secs(2),
            losses: LossPolicies::default(),
        }
    }
}
