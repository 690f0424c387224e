//! Whether an answer can be used as a whole.
//!
//! Two streams may read one topic. It is read once, so where its reading starts and stops, and what is done
//! when it comes back or loses records, has to be one: a rule that one stream gives and another leaves open
//! is that of both, and two rules that differ are refused. If one of them won, the other stream would be
//! read as nobody asked it to be.

use std::collections::BTreeMap;

use super::MetadataError;
use super::nearest::nearest_key;
use crate::model::rules::Rule;
use crate::model::{ClusterId, StreamId, StreamsMetadata, TopicName};

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
                self.check_topic(cluster, topic)?;
            }
        }
        Ok(())
    }

    fn check_topic(&self, cluster: &ClusterId, topic: &TopicName) -> Result<(), MetadataError> {
        let mut said = BTreeMap::new();
        for (stream, described) in &self.streams {
            let rules = described.rules_of(cluster, topic);
            for (rule, here) in rules.unwrap_or_default() {
                let (first, there): &(&StreamId, Rule) =
                    said.entry(rule).or_insert_with(|| (stream, here.clone()));
                if *there == here {
                    continue;
                }
                let (one, other) = there.told_apart(&here);
                return Err(MetadataError::Contradictory {
                    cluster: cluster.clone(),
                    topic: topic.clone(),
                    rule,
                    said: Box::new([((*first).clone(), one), (stream.clone(), other)]),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use timely_splits::loss::LossPolicy;

    use crate::model::{
        ClientProperties, KafkaStream, LossRules, OnReturn, StartAt, StartRules, StopAt,
    };

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

    /// The first by name won, without a word, so that records of the second were skipped.
    #[test]
    fn streams_that_contradict_each_other_about_losses_are_both_named() {
        let losing = |lost_records, recreated_topic| {
            stream(None, None).with_losses(LossRules {
                lost_records,
                recreated_topic,
            })
        };
        let (skip, fail) = (Some(LossPolicy::Skip), Some(LossPolicy::Fail));

        assert_eq!(
            checked([("a", losing(skip, None)), ("b", losing(None, fail))]),
            Ok(())
        );
        assert_eq!(
            checked([("a", losing(skip, None)), ("b", losing(fail, None))]).unwrap_err(),
            "topic east/orders: 'lost_records' is skip in stream 'a' and fail in stream 'b'; expected the \
             same in both, or only in one"
        );
        assert_eq!(
            checked([("a", losing(skip, skip)), ("b", losing(None, fail))]).unwrap_err(),
            "topic east/orders: 'recreated_topic' is skip in stream 'a' and fail in stream 'b'; expected the \
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
