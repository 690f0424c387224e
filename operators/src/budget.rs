//! Bytes that the sources of a process share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that the sources of a process may have in flight together, at most and about.
///
/// Half of them are guaranteed: an equal part to each source that is read, and of that an equal part to
/// each of its workers. The other half is lent to whoever asks first, until it is given back. So a source
/// alone has all of it, and one whose user stops takes nothing of what is guaranteed to another.
/// Parts are divided again whenever a worker begins or ends to read; what was lent by then stays lent
/// until the user has dealt with it, and meanwhile the whole can be exceeded by what a newcomer is guaranteed.
///
/// Clones are the same budget.
///
/// # Examples
///
/// ```
/// use timely_splits::budget::ByteBudget;
/// use timely_splits::source::SourceOptions;
/// use timely_splits::tick::TimeMap;
/// # use timely_splits::split::Split;
/// # fn options<S: Split>() -> (SourceOptions<u64, S>, SourceOptions<u64, S>) {
/// let budget = ByteBudget::new(256 << 20);
/// let mut orders = SourceOptions::new("orders", TimeMap::identity());
/// orders.budget = budget.source();
/// let mut visits = SourceOptions::new("visits", TimeMap::identity());
/// visits.budget = budget.source();
/// # (orders, visits) }
/// ```
#[derive(Clone, Debug)]
pub struct ByteBudget(Arc<Totals>);

/// The counters order nothing but themselves: no other memory is published with them.
#[derive(Debug)]
struct Totals {
    bytes: AtomicUsize,
    /// The sources that are read.
    sources: AtomicUsize,
    /// What all accounts have beyond what they are guaranteed, as each has last told.
    lent: AtomicUsize,
}

impl ByteBudget {
    /// A budget of `bytes`.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(Totals {
            bytes: AtomicUsize::new(bytes),
            sources: AtomicUsize::default(),
            lent: AtomicUsize::default(),
        }))
    }

    /// How many bytes it has.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// Makes it another number of bytes. If it has fewer, nothing is read before enough was dealt with.
    pub fn resize(&self, bytes: usize) {
        self.0.bytes.store(bytes, Ordering::Relaxed);
    }

    /// The share of one source; its clones are the same share, for the workers of the source.
    #[must_use]
    pub fn source(&self) -> SourceBudget {
        SourceBudget {
            budget: self.clone(),
            workers: Arc::default(),
        }
    }
}

/// The share of one source in a [`ByteBudget`].
#[derive(Clone, Debug)]
pub struct SourceBudget {
    budget: ByteBudget,
    /// The workers of this process that read the source.
    workers: Arc<AtomicUsize>,
}

impl SourceBudget {
    /// The account of one more worker that reads the source.
    pub(crate) fn open(&self) -> Account {
        if self.workers.fetch_add(1, Ordering::Relaxed) == 0 {
            self.budget.0.sources.fetch_add(1, Ordering::Relaxed);
        }
        Account {
            source: self.clone(),
            borrowed: 0,
        }
    }
}

/// What one worker has of the budget, until this is dropped.
#[derive(Debug)]
pub(crate) struct Account {
    source: SourceBudget,
    /// What is counted as lent to it.
    borrowed: usize,
}

impl Account {
    /// Takes note that `used` bytes are in flight, and says how many more may be.
    ///
    /// Two that ask at once may be told of the same bytes, so that the whole is exceeded by what each
    /// takes until it asks again.
    pub(crate) fn room(&mut self, used: usize) -> usize {
        let totals = &self.source.budget.0;
        let bytes = totals.bytes.load(Ordering::Relaxed);
        let guaranteed = self.guaranteed(bytes);
        let borrowed = used.saturating_sub(guaranteed);
        // What this adds is what it borrows, and never more than it has: the sum does not go below zero.
        totals.lent.fetch_add(borrowed, Ordering::Relaxed);
        let lent = totals.lent.fetch_sub(self.borrowed, Ordering::Relaxed) - self.borrowed;
        self.borrowed = borrowed;
        let lendable = bytes - bytes / 2;
        guaranteed.saturating_sub(used) + lendable.saturating_sub(lent)
    }

    /// The bytes that the whole budget has.
    pub(crate) fn whole(&self) -> usize {
        self.source.budget.bytes()
    }

    /// Whether it has more than it is guaranteed.
    pub(crate) fn borrows(&self) -> bool {
        self.borrowed > 0
    }

    /// One byte at least, so that a worker goes on however little there is.
    fn guaranteed(&self, bytes: usize) -> usize {
        let sources = self.source.budget.0.sources.load(Ordering::Relaxed);
        let workers = self.source.workers.load(Ordering::Relaxed);
        (bytes / 2 / sources.max(1) / workers.max(1)).max(1)
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let totals = &self.source.budget.0;
        totals.lent.fetch_sub(self.borrowed, Ordering::Relaxed);
        if self.source.workers.fetch_sub(1, Ordering::Relaxed) == 1 {
            totals.sources.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_alone_has_all_of_it() {
        let budget = ByteBudget::new(1_000);
        let mut alone = budget.source().open();

        assert_eq!(alone.room(0), 1_000);
        assert_eq!(alone.room(700), 300);
        assert_eq!(alone.room(1_100), 0);
    }

    #[test]
    fn who_is_full_takes_nothing_of_what_another_is_guaranteed() {
        let budget = ByteBudget::new(1_000);
        let (mut one, mut other) = (budget.source().open(), budget.source().open());

        assert_eq!(one.room(0), 250 + 500);
        assert_eq!(one.room(750), 0);
        assert_eq!(other.room(0), 250);
        assert_eq!(other.room(250), 0);
        assert_eq!(one.room(600), 150, "what is given back is lent again");
        assert_eq!(other.room(250), 150);
    }

    #[test]
    fn the_workers_of_a_source_share_its_part() {
        let budget = ByteBudget::new(1_000);
        let (source, other) = (budget.source(), budget.source());
        let mut workers = [source.open(), source.clone().open()];
        let mut alone = other.open();

        assert_eq!(workers[0].room(625), 0);
        assert_eq!(workers[1].room(0), 125);
        assert_eq!(alone.room(0), 250);
    }

    #[test]
    fn it_is_divided_again_when_somebody_comes_or_goes() {
        let budget = ByteBudget::new(1_000);
        let mut stays = budget.source().open();
        assert_eq!(stays.room(900), 100);

        let mut comes = budget.source().open();
        assert_eq!(stays.room(900), 0);
        assert_eq!(comes.room(0), 250);
        assert_eq!(comes.room(250), 0);
        drop(stays);

        assert_eq!(comes.room(250), 750);
        drop(comes);
        assert_eq!(budget.source().open().room(0), 1_000);
    }

    #[test]
    fn a_budget_can_be_made_another_one_while_it_is_used() {
        let budget = ByteBudget::new(1_000);
        let mut account = budget.source().open();
        assert_eq!(account.room(800), 200);

        budget.resize(600);
        assert_eq!(account.room(800), 0);
        budget.resize(2_000);
        assert_eq!(account.room(800), 1_200);
    }

    #[test]
    fn nothing_is_too_little_to_go_on_with() {
        let budget = ByteBudget::new(1);
        let (mut one, mut other) = (budget.source().open(), budget.source().open());

        assert_eq!(one.room(9), 0);
        assert_eq!(other.room(0), 1);
    }
}
