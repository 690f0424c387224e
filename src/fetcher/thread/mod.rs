//! The thread of one client.

mod lives;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use timely_splits::epoch::SplitEpoch;
use timely_splits::fetcher::{DownCause, FetcherDown};
use timely_splits::health::{FailureKind, Health, HealthStatus};

use super::attempts::Attempts;
use super::client::{
    Command, Life, LifeEnd, Notice, PartitionName, Progress, WorkerLink, partition_of,
};
use super::complaints::Complaints;
use super::ffi::{CLOSE_WAIT_MAX, Said};
use super::open::{Assigned, Open};
use crate::metadata::secret::ResolvedProperties;
use crate::model::{ClientProperties, ClusterId, KafkaSplit};

/// How often the client is listened to while nobody asks anything of it: a process may have hundreds.
const LISTEN_EVERY: Duration = Duration::from_millis(500);

/// The most commands that are carried out before the client is listened to again.
const COMMANDS_MAX: usize = 16 * 1024;

/// The state of the thread.
///
/// # Invariants
///
/// It is whole after a panic, but for `open`, which is given up then: links are known before anything
/// is done for them, and a command that was not begun is still among those `asked`.
pub(super) struct ClientThread {
    number: u64,
    cluster: ClusterId,
    properties: ClientProperties,
    /// Properties of the user's that were overruled.
    overruled: Vec<String>,
    commands: Receiver<Command>,
    /// What was taken off `commands` and not begun, at most [`COMMANDS_MAX`] and one.
    asked: VecDeque<Command>,
    progress: Arc<Progress>,
    records_heard: u64,
    links: BTreeMap<usize, Arc<WorkerLink>>,
    life: Life,
    open: Option<Open>,
    /// What the client is made of, or was to be made of when that failed last.
    made_of: Option<ResolvedProperties>,
    attempts: Attempts,
    /// Why no client could be made, as it was last said.
    unmade: String,
    complaints: Complaints,
    /// What nobody could be told yet.
    untold: Vec<Health>,
}

impl ClientThread {
    pub(super) fn new(
        number: u64,
        cluster: ClusterId,
        (properties, overruled): (ClientProperties, Vec<String>),
        commands: Receiver<Command>,
        progress: Arc<Progress>,
    ) -> Self {
        Self {
            number,
            properties,
            overruled,
            commands,
            asked: VecDeque::new(),
            progress,
            records_heard: 0,
            links: BTreeMap::new(),
            life: Life::default(),
            open: None,
            made_of: None,
            attempts: Attempts::new(Instant::now()),
            unmade: String::new(),
            complaints: Complaints::about(&cluster),
            untold: Vec::new(),
            cluster,
        }
    }

    /// Serves the workers until all of them, and the pool, have let go of the client.
    pub(super) fn run(mut self) {
        // A panic is a bug of ours. It ends this life of the client and no other cluster's.
        while let Err(panicked) = panic::catch_unwind(AssertUnwindSafe(|| self.serve())) {
            self.crashed(panicked.as_ref());
        }
        if let Some(open) = self.open.take() {
            tracing::debug!(cluster = %self.cluster, "closing the client");
            if !open.close() {
                tracing::warn!(
                    cluster = %self.cluster,
                    "the client did not close within {CLOSE_WAIT_MAX:?}; it is left open"
                );
            }
        }
    }

    fn serve(&mut self) {
        for name in std::mem::take(&mut self.overruled) {
            self.say(
                HealthStatus::Well,
                format!(
                    "client property '{name}' is overruled: the source depends on its own value"
                ),
            );
        }
        loop {
            if self.attempts.is_due(Instant::now()) {
                self.begin_life(None);
            }
            self.obey();
            self.listen();
            self.renew();
            self.rest();
            let every = match self.attempts.rests() {
                true => Duration::MAX,
                false => LISTEN_EVERY,
            };
            match self.commands.recv_timeout(every) {
                Ok(first) => self.asked.push_back(first),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Whether there is no client, or it complains.
    fn fails(&self) -> bool {
        self.open.is_none() || self.complaints.is_failing()
    }

    /// Carries out what was asked, in order, and as many of one kind as there are in one call: a call
    /// takes time in proportion to all that the client reads.
    fn obey(&mut self) {
        self.asked
            .extend(self.commands.try_iter().take(COMMANDS_MAX));
        let mut starting: BTreeMap<PartitionName, Assigned> = BTreeMap::new();
        let mut ending: Vec<(usize, KafkaSplit, SplitEpoch)> = Vec::new();
        while let Some(command) = self.asked.pop_front() {
            match command {
                Command::Assign {
                    worker,
                    life,
                    split,
                    split_epoch,
                    start,
                } if life == self.life => {
                    self.end(&mut ending);
                    if life != self.life {
                        continue;
                    }
                    let partition = partition_of(&split);
                    if starting.contains_key(&partition) {
                        self.start(&mut starting);
                    }
                    let assigned = Assigned {
                        worker,
                        split,
                        split_epoch,
                        start,
                    };
                    starting.insert(partition, assigned);
                }
                Command::Unassign {
                    worker,
                    life,
                    split,
                    split_epoch,
                } if life == self.life => {
                    self.start(&mut starting);
                    ending.push((worker, split, split_epoch));
                }
                // Asked in an earlier life: its reading ended with it, and the worker knows.
                Command::Assign { .. } | Command::Unassign { .. } => {}
                Command::Join(link) => self.join(link),
                Command::Need => self.wake(),
                #[cfg(test)]
                Command::Panic => panic!("asked to"),
                Command::Leave { worker, queue } => {
                    self.links.remove(&worker);
                    self.start(&mut starting);
                    self.end(&mut ending);
                    self.leave(worker);
                    drop(queue);
                }
            }
        }
        self.start(&mut starting);
        self.end(&mut ending);
    }

    fn join(&mut self, link: Arc<WorkerLink>) {
        self.links.insert(link.worker, Arc::clone(&link));
        // A client that rests is introduced when it is made.
        if !self.attempts.rests() {
            self.introduce(&link, None);
        }
        for health in self.untold.drain(..) {
            link.tell(Notice::Health(health));
        }
    }

    fn leave(&mut self, worker: usize) {
        let Some(open) = &mut self.open else { return };
        let left: Vec<(usize, KafkaSplit, SplitEpoch)> = open
            .assigned
            .values()
            .filter(|assigned| assigned.worker == worker)
            .map(|assigned| (worker, assigned.split.clone(), assigned.split_epoch))
            .collect();
        open.queues.remove(&worker);
        self.end(&mut left.into_iter().collect());
    }

    /// Begins to read what is `starting`, which is left empty.
    fn start(&mut self, starting: &mut BTreeMap<PartitionName, Assigned>) {
        if starting.is_empty() {
            return;
        }
        let starting = std::mem::take(starting);
        // A newer assignment ends an older one that nobody has asked back yet.
        let mut replaced: Vec<(usize, KafkaSplit, SplitEpoch)> = self
            .open
            .iter()
            .flat_map(|open| starting.keys().filter_map(|key| open.assigned.get(key)))
            .map(|old| (old.worker, old.split.clone(), old.split_epoch))
            .collect();
        let life = self.life;
        self.end(&mut replaced);
        if life != self.life {
            // The workers are told that what they had asked for is over, and ask again.
            return;
        }
        let Some(open) = &mut self.open else { return };
        let (present, gone): (Vec<_>, Vec<_>) = starting
            .into_iter()
            .partition(|(_, assigned)| open.queues.contains_key(&assigned.worker));
        for (partition, assigned) in gone {
            tracing::debug!(?partition, worker = assigned.worker, "a worker is gone");
        }
        let Err(error) = open.start(&present) else {
            open.assigned.extend(present);
            return;
        };
        // One bad partition fails the whole call: each on its own, to find out which.
        let is_alone = present.len() == 1;
        for reading in present {
            let one = [reading];
            let failed = if is_alone {
                Err(error.clone())
            } else {
                open.start(&one)
            };
            let Err(failure) = failed else {
                open.assigned.extend(one);
                continue;
            };
            let [(_, assigned)] = one;
            let message = format!(
                "the client does not begin to read it: {failure} ({})",
                failure.name
            );
            tell_down(&self.links, self.number, self.life, assigned, message);
        }
    }

    /// Stops reading what is `ending`, which is left empty, and says so to who asked.
    fn end(&mut self, ending: &mut Vec<(usize, KafkaSplit, SplitEpoch)>) {
        if ending.is_empty() {
            return;
        }
        let Some(open) = &mut self.open else {
            return ending.clear();
        };
        let mut over: Vec<PartitionName> = Vec::new();
        for (worker, split, split_epoch) in &*ending {
            let partition = partition_of(split);
            // Only the assignment that is meant, or one before it.
            let is_meant = open.assigned.get(&partition).is_some_and(|assigned| {
                assigned.worker == *worker && assigned.split_epoch <= *split_epoch
            });
            if is_meant {
                open.assigned.remove(&partition);
                over.push(partition);
            }
        }
        let result = if over.is_empty() {
            Ok(())
        } else {
            let partitions = over
                .iter()
                .map(|(topic, number)| (topic.as_str(), number.0));
            open.client.incremental_unassign(partitions)
        };
        if let Err(error) = result {
            // What is still read could be taken for what is read next. A client that is not what we
            // think it is has to go.
            ending.clear();
            let why = format!("the client does not stop reading: {error} ({})", error.name);
            return self.begin_life(Some(LifeEnd::failed(&why)));
        }
        for (worker, split, _) in ending.drain(..) {
            if let Some(link) = self.links.get(&worker) {
                link.tell(Notice::Unassigned {
                    cluster: self.cluster.clone(),
                    client: self.number,
                    life: self.life,
                    partition: partition_of(&split),
                });
            }
        }
    }

    /// Takes what the client says of itself.
    fn listen(&mut self) {
        let Some(open) = &mut self.open else { return };
        let (mut said, mut fatal, mut astray) = (Vec::new(), None, BTreeSet::new());
        for event in open.events() {
            match event.said() {
                Some(Said::Error(error)) if error.name == "_FATAL" => fatal = Some(error),
                Some(words) => said.push(words),
                None => astray.extend(event.partition()),
            }
        }
        let now = Instant::now();
        let records = self.progress.records();
        let mut heard = self.complaints.hear(said, now);
        let recovered = self.complaints.recover(records != self.records_heard, now);
        self.records_heard = records;
        heard.extend(recovered);
        for health in heard {
            self.tell_health(health);
        }
        for partition in astray {
            self.lost(&partition);
        }
        if let Some(error) = fatal {
            let why = format!("{error} ({})", error.name);
            self.begin_life(Some(LifeEnd::failed(&why)));
        }
    }

    /// A record of a partition came where nobody takes it: the partition is read again from where
    /// its reader is, so that the record is not lost.
    fn lost(&self, (topic, number): &(String, i32)) {
        let Some(open) = &self.open else { return };
        let found = open
            .assigned
            .iter()
            .find(|((name, partition), _)| name.as_str() == topic && partition.0 == *number)
            .map(|(_, assigned)| assigned.clone());
        let Some(assigned) = found else { return };
        let message = "a record went astray in the client; it is read again".to_owned();
        tell_down(&self.links, self.number, self.life, assigned, message);
    }

    fn say(&mut self, status: HealthStatus, message: String) {
        let subject = format!("cluster {}", self.cluster);
        self.tell_health(Health::new(subject, status, message));
    }

    /// Tells one worker, so that a person hears it once.
    fn tell_health(&mut self, health: Health) {
        tracing::info!("{health}");
        match self.links.values().next() {
            Some(link) => link.tell(Notice::Health(health)),
            None => self.untold.push(health),
        }
    }
}

fn tell_down(
    links: &BTreeMap<usize, Arc<WorkerLink>>,
    client: u64,
    life: Life,
    assigned: Assigned,
    message: String,
) {
    if let Some(link) = links.get(&assigned.worker) {
        link.tell(Notice::Down {
            client,
            life,
            down: FetcherDown {
                split: assigned.split,
                split_epoch: assigned.split_epoch,
                cause: DownCause::Failed(FailureKind::Transient),
                message,
            },
        });
    }
}
