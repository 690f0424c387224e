//! Two sources in one process, of which one has a user who stops.

use libtest_mimic::Failed;
use timely_kafka::MemoryBudget;
use timely_kafka::embedded::EmbeddedCluster;
use timely_kafka::timely::Config;
use timely_kafka::timely::dataflow::ProbeHandle;

use crate::fill::{Content, PARTITIONS};
use crate::stop::{read_into, source, step_until_stopped};
use crate::{MEMORY, Shape, assert_resident, in_a_process, resident, step_until};

/// What the one may have: of what may be in flight, all but what the other is guaranteed.
const STOPPED_MAX: usize = MEMORY / 2 * 3 / 4;
/// What may be in flight beyond it: what one activation emits, and the batch that exceeds it.
const BEYOND: usize = 2 << 20;
/// Ticks for which nothing more may be read before it counts as stopped.
const TICKS: usize = 40;

pub(crate) fn case() -> Result<(), Failed> {
    let cluster = EmbeddedCluster::start()?;
    for topic in ["stopped", "moving"] {
        Content::Small.fill(&cluster, topic)?;
    }
    in_a_process(&format!("sources {}", cluster.bootstrap_servers()))?;
    Ok(())
}

pub(crate) fn read(servers: &str) {
    let (before, _) = resident();
    let memory = MemoryBudget::new(MEMORY);
    let sources = ["stopped", "moving"].map(|topic| source(topic, servers, &memory));
    let partitions = usize::try_from(PARTITIONS).unwrap();
    let all = Content::Small.records() * partitions;
    timely_kafka::execute(Config::thread(), move |worker| {
        let probes = [ProbeHandle::new(), ProbeHandle::new()];
        let [stopped, moving] = [0, 1].map(|number| {
            let (source, probe): (&_, &ProbeHandle<u64>) = (&sources[number], &probes[number]);
            worker.dataflow(|scope| read_into(source, scope, probe))
        });
        moving.borrow_mut().release();

        // The one is full, and the other reads all it has.
        step_until_stopped(worker, &stopped, &probes[0], TICKS);
        step_until(worker, || moving.borrow().records >= all);
        let kept = stopped.borrow().bytes;
        println!("stopped at {} MiB", kept >> 20);
        assert!(kept < STOPPED_MAX + BEYOND, "{kept} bytes are in flight");

        stopped.borrow_mut().release();
        step_until(worker, || stopped.borrow().records >= all);
        for (source, probe) in sources.iter().zip(&probes) {
            source.control().stop();
            step_until(worker, || probe.done());
        }
        // Each source has a client of its own.
        let shape = Shape {
            workers: 1,
            clusters: 2,
            brokers: 1,
            partitions: 2 * partitions,
        };
        assert_resident(before, &shape);
    })
    .unwrap();
}
