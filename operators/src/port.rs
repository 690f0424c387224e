//! Outputs that no input is connected to.

use std::fmt;

use timely::Container;
use timely::ContainerBuilder;
use timely::container::{CapacityContainerBuilder, NoopBuilder};
use timely::dataflow::Stream;
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;

use crate::tick::{SourceTime, Tick, TimeMap};

/// An output with the capability that belongs to it.
///
/// They are one value because a release build accepts the capability of another output in silence,
/// and the frontier is wrong from there on.
///
/// # Invariants
///
/// No input of the operator is connected to it: the plain way to make an output would connect all
/// of them, and the frontier would never leave the minimum.
pub(crate) struct Port<T: SourceTime, CB: ContainerBuilder> {
    output: OutputBuilder<T, CB>,
    capability: Option<Capability<T>>,
}

/// An output of single items.
pub(crate) type ItemPort<T, D> = Port<T, CapacityContainerBuilder<Vec<D>>>;

/// An output of whole containers.
pub(crate) type ContainerPort<T, C> = Port<T, NoopBuilder<C>>;

impl<T: SourceTime, CB: ContainerBuilder<Container: Container>> Port<T, CB> {
    /// Adds an output to an operator. It has to be [given its capability](Self::hold) when the
    /// operator is built.
    pub(crate) fn new<'scope>(
        builder: &mut OperatorBuilder<'scope, T>,
    ) -> (Self, Stream<'scope, T, CB::Container>) {
        let (output, stream) = builder.new_output_connection([]);
        let port = Self {
            output: OutputBuilder::from(output),
            capability: None,
        };
        (port, stream)
    }

    /// Takes the output's capability from the operator's, which are in the order of the outputs.
    ///
    /// # Panics
    ///
    /// Panics if there is none left: the operator has more ports than outputs.
    pub(crate) fn hold(&mut self, capabilities: &mut impl Iterator<Item = Capability<T>>) {
        self.capability = Some(capabilities.next().expect("one capability an output"));
    }

    /// Gives up all times before `time`.
    pub(crate) fn downgrade(&mut self, time: &T) {
        if let Some(capability) = &mut self.capability {
            capability.downgrade(time);
        }
    }

    /// Gives up all times. What is given from here on is dropped.
    pub(crate) fn close(&mut self) {
        self.capability = None;
    }

    /// The capability for `time`, or for the least time that is left.
    fn at(&self, time: Option<&T>) -> Option<Capability<T>> {
        let capability = self.capability.as_ref()?;
        Some(match time {
            Some(time) => capability.delayed(time),
            None => capability.clone(),
        })
    }
}

impl<T: SourceTime, D: Clone + 'static> ItemPort<T, D> {
    /// Emits an item at `time`, or at the least time that is left.
    pub(crate) fn give(&mut self, time: Option<&T>, item: D) {
        if let Some(capability) = self.at(time) {
            self.output.activate().session(&capability).give(item);
        }
    }
}

/// The time of all messages between the operators of a source, later than the least one, which the ports
/// that they leave through hold.
///
/// At the time that is held each message that is taken would look like progress, of which timely tells all
/// workers at once, and so wakes them.
pub(crate) fn message_time<T: SourceTime>(time: TimeMap<T>) -> T {
    (time.time_of)(Tick(1))
}

impl<T: SourceTime, C: Container> ContainerPort<T, C> {
    /// Emits containers at `time`, in their order.
    pub(crate) fn give_all(&mut self, time: &T, containers: impl Iterator<Item = C>) {
        let Some(capability) = self.at(Some(time)) else {
            return;
        };
        let mut output = self.output.activate();
        let mut session = output.session_with_builder(&capability);
        for mut container in containers {
            session.give_container(&mut container);
        }
    }
}

impl<T: SourceTime, CB: ContainerBuilder> fmt::Debug for Port<T, CB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port")
            .field("capability", &self.capability)
            .finish_non_exhaustive()
    }
}
