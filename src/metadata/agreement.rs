//! Whether an answer can be used as a whole.
//!
//! Two streams may read one topic. It is read once, so where its reading starts, and stops, has to be one:
//! a rule that one stream gives and another leaves open is that of both, and two rules that differ are
//! refused. If one of them won, the other stream would be read from where nobody asked it to be.

use std::fmt::Display;

use super::MetadataError;
use super::nearest::nearest_key;
use crate::model::{ClusterId, StartRules, StreamId, StreamsMetadata, TopicName};

/// The field that says what becomes of topics that come back.
pub(super) const ON_RETURN: &str = "on_return";

impl StreamsMetadata {
    /// Whether it can be read: every cluster that a stream names is described, and no two streams
    /// contradict each other.
    ///
    /// A source checks the part that it is subscribed to, at every answer.
    ///
    /// # Errors
    ///
    /// [`MetadataError::Undescribed`] or [`MetadataError::Contradictory`], whichever is met first.
    ///
    /// # Examples
    ///
    /// ```
    /// use timely_kafka::StartAt;
    /// use timely_kafka::model::{ClientProperties, KafkaStream, StreamsMetadata};
    ///
    /// let all = KafkaStream::new().with_topics("east", ["orders"])?;
    /// let new = all.clone().with_start("east", StartAt::Latest)?;
    /// let old = all.clone().with_start("east", StartAt::Earliest)?;
    /// let metadata = StreamsMetadata::new()
    ///     .with_cluster("east", ClientProperties::new())?
    ///     .with_stream("audit", all)?
    ///     .with_stream("billing", new)?;
    /// assert!(metadata.check().is_ok(), "'audit' leaves it open");
    ///
    /// let metadata = metadata.with_stream("copies", old)?;
    /// assert_eq!(
    ///     metadata.check().unwrap_err().to_string(),
    ///     "topic east/orders: 'start' is latest in stream 'billing' and earliest in stream 'copies'; \
    ///      expected the same in both, or only in one"
    /// );
    /// # Ok::<(), timely_kafka::model::NameError>(())
    /// ```
    pub fn check(&self) -> Result<(), MetadataError> {
        self.check_described()?;
        self.check_agreed()
    }

    /// Every cluster that a stream names is described.
    pub(crate) fn check_described(&self) -> Result<(), MetadataError> {
        let Some((stream, cluster)) = self.undescribed() else {
            return Ok(());
        };
        let nearest = nearest_key(cluster.as_str(), &self.clusters).cloned();
        Err(MetadataError::Undescribed {
            stream: stream.clone(),
            cluster: cluster.clone(),
            nearest,
        })
    }

    /// No two streams contradict each other.
    pub(crate) fn check_agreed(&self) -> Result<(), MetadataError> {
        for (cluster, topics) in self.topics() {
            for topic in topics {
                self.check_starts(cluster, topic)?;
                self.check_returns(cluster, topic)?;
            }
        }
        Ok(())
    }

    fn check_starts(&self, cluster: &ClusterId, topic: &TopicName) -> Result<(), MetadataError> {
        let streams = self.streams.iter();
        let starts = streams
            .filter_map(|(id, stream)| Some((id, stream.starts_of(cluster, topic)?)))
            .collect::<Vec<_>>();
        let names = StartRules::default().by_name().map(|(rule, _)| rule);
        let contradiction = names.into_iter().enumerate().find_map(|(index, rule)| {
            let said = starts
                .iter()
                .filter_map(|(id, starts)| Some((*id, starts.by_name()[index].1?)));
            Some((rule, differing(said)?))
        });
        let contradiction = contradiction.or_else(|| {
            let all = self.streams.iter();
            let said = all.filter_map(|(id, stream)| Some((id, stream.stop_of(cluster, topic)?)));
            Some(("stop", differing(said)?))
        });
        match contradiction {
            None => Ok(()),
            Some((rule, said)) => Err(MetadataError::Contradictory {
                cluster: cluster.clone(),
                topic: topic.clone(),
                rule,
                said,
            }),
        }
    }

    fn check_returns(&self, cluster: &ClusterId, topic: &TopicName) -> Result<(), MetadataError> {
        let streams = self.streams.iter();
        let read = streams.filter(|(_, stream)| stream.reads(cluster, topic));
        let mut said = read.filter_map(|(id, stream)| Some((id, stream.on_return?)));
        let Some((first, there)) = said.next() else {
            return Ok(());
        };
        let Some((id, here)) = said.find(|(_, here)| *here != there) else {
            return Ok(());
        };
        Err(MetadataError::Contradictory {
            cluster: cluster.clone(),
            topic: topic.clone(),
            rule: ON_RETURN,
            said: Box::new([
                (first.clone(), there.to_string()),
                (id.clone(), here.to_string()),
            ]),
        })
    }
}

/// The first two of the streams that say one thing differently, with what they say in words.
fn differing<'a, R: PartialEq + Display + 'a>(
    mut said: impl Iterator<Item = (&'a StreamId, &'a R)>,
) -> Option<Box<[(StreamId, String); 2]>> {
    let (first, one) = said.next()?;
    let (id, other) = said.find(|(_, other)| *other != one)?;
    let mut words = other.to_string();
    if words == one.to_string() {
        // Offsets are too many to be named.
        words.push_str(" (another one)");
    }
    Some(Box::new([
        (first.clone(), one.to_string()),
        (id.clone(), words),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClientProperties, KafkaStream, OnReturn, StartAt, StopAt};

    fn stream(start: Option<StartAt>, new_partitions: Option<StartAt>) -> KafkaStream {
        let read = KafkaStream::new().with_topics("east", ["orders"]).unwrap();
        read.with_starts(StartRules {
            start,
            new_partitions,
            ..StartRules::default()
        })
    }

    fn checked(streams: [(&str, KafkaStream); 2]) -> Result<(), String> {
        let metadata = StreamsMetadata::new().with_cluster("east", ClientProperties::new());
        let metadata = streams
            .into_iter()
            .fold(metadata.unwrap(), |metadata, (name, stream)| {
                metadata.with_stream(name, stream).unwrap()
            });
        metadata.check().map_err(|error| error.to_string())
    }

    /// S23.
    #[test]
    fn streams_that_say_the_same_or_leave_it_open_agree() {
        let latest = || stream(Some(StartAt::Latest), None);
        let new = || stream(None, Some(StartAt::Latest));

        assert_eq!(checked([("a", latest()), ("b", latest())]), Ok(()));
        assert_eq!(checked([("a", latest()), ("b", new())]), Ok(()));
    }

    /// S23. The first by name won, without a word, so that the second one missed what it asked for.
    #[test]
    fn streams_that_contradict_each_other_are_both_named() {
        let latest = stream(None, Some(StartAt::Latest));
        let earliest = stream(None, Some(StartAt::Earliest));
        let given = |offset| {
            stream(
                Some(StartAt::positions([(0, offset)], StartAt::Latest)),
                None,
            )
        };

        assert_eq!(
            checked([("a", latest), ("b", earliest)]).unwrap_err(),
            "topic east/orders: 'new_partitions' is latest in stream 'a' and earliest in stream 'b'; \
             expected the same in both, or only in one"
        );
        assert_eq!(
            checked([("a", given(1)), ("b", given(2))]).unwrap_err(),
            "topic east/orders: 'start' is the given offset, otherwise latest in stream 'a' and the \
             given offset, otherwise latest (another one) in stream 'b'; expected the same in both, \
             or only in one"
        );
    }

    /// S23.
    #[test]
    fn streams_that_contradict_each_other_about_what_comes_back_are_both_named() {
        let returning = |on_return| stream(None, None).with_return(on_return);
        let (resumed, again) = (OnReturn::Resume, OnReturn::ReadAgain);

        assert_eq!(
            checked([("a", returning(again)), ("b", stream(None, None))]),
            Ok(())
        );
        assert_eq!(
            checked([("a", returning(again)), ("b", returning(resumed))]).unwrap_err(),
            "topic east/orders: 'on_return' is read_again in stream 'a' and resume in stream 'b'; \
             expected the same in both, or only in one"
        );
    }

    #[test]
    fn streams_that_stop_at_different_places_are_both_named() {
        let end = stream(None, None).with_stops(StopAt::End);
        let never = stream(None, None).with_stops(StopAt::Never);
        let open = stream(None, None);

        assert_eq!(checked([("a", end.clone()), ("b", open)]), Ok(()));
        assert_eq!(
            checked([("a", end), ("b", never)]).unwrap_err(),
            "topic east/orders: 'stop' is the end in stream 'a' and nowhere in stream 'b'; expected the \
             same in both, or only in one"
        );
    }

    #[test]
    fn streams_that_read_different_topics_do_not_contradict_each_other() {
        let one = stream(Some(StartAt::Latest), None);
        let other = KafkaStream::new().with_topics("east", ["retry"]).unwrap();
        let other = other.with_start("east", StartAt::Earliest).unwrap();

        assert_eq!(checked([("a", one), ("b", other)]), Ok(()));
    }
}
