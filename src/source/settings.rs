//! What a builder says about a source.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use timely_splits::protocol::{Configuration, Setting, Unshown};
use timely_splits::resume::Resume;

use crate::discovery::{CommitOffsets, DiscoveryOptions};
use crate::fetcher::Settings as FetchSettings;
use crate::memory::MemoryBudget;
use crate::metadata::{MetadataOptions, Subscription};
use crate::model::{ClientProperties, LossRules, StartRules, StopAt};

/// The default of [`crate::KafkaSourceBuilder::keep_positions_for`].
const KEEP_POSITIONS_FOR: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The default of [`crate::KafkaSourceBuilder::identify_within`].
const IDENTIFY_WITHIN: Duration = Duration::from_secs(2);

/// Everything about a source that is the same in all its processes.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(super) name: String,
    pub(super) subscription: Subscription,
    pub(super) starts: StartRules,
    pub(super) stop: StopAt,
    pub(super) bounded: bool,
    pub(super) properties: ClientProperties,
    pub(super) tick_interval: Duration,
    pub(super) discovery_interval: Duration,
    pub(super) metadata: MetadataOptions,
    pub(super) keep_positions_for: Duration,
    pub(super) memory: MemoryBudget,
    pub(super) resume: Resume,
    pub(super) commit_offsets: Option<CommitOffsets>,
    pub(super) losses: LossRules,
    pub(super) identify_every: Duration,
    pub(super) identify_within: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "kafka".to_owned(),
            subscription: Subscription::streams::<&str>([]),
            starts: StartRules::default(),
            stop: StopAt::Never,
            bounded: false,
            properties: ClientProperties::new(),
            tick_interval: Duration::from_millis(100),
            discovery_interval: Duration::from_secs(5),
            metadata: MetadataOptions::default(),
            keep_positions_for: KEEP_POSITIONS_FOR,
            memory: MemoryBudget::process(),
            resume: Resume::Continue,
            commit_offsets: None,
            losses: LossRules::default(),
            identify_every: Duration::ZERO,
            identify_within: IDENTIFY_WITHIN,
        }
    }
}

impl Settings {
    pub(super) fn discovery(&self) -> DiscoveryOptions {
        DiscoveryOptions {
            starts: self.starts.clone(),
            stop: self.stop.clone(),
            bounded: self.bounded,
            interval: self.discovery_interval,
            properties: self.fetching().control(&ClientProperties::new()),
            metadata: self.metadata.clone(),
            ..DiscoveryOptions::default()
        }
    }

    pub(super) fn fetching(&self) -> FetchSettings {
        FetchSettings {
            source: self.name.clone(),
            properties: self.properties.clone(),
            memory: self.memory.clone(),
        }
    }

    /// What must be the same in every process.
    pub(super) fn configuration(&self) -> Configuration {
        let mut settings = Setting::of(self.in_words(), Self::default().in_words());
        for (name, value) in self.properties.iter() {
            // The keys of this hasher are fixed, and all processes run the same program.
            let mut hasher = DefaultHasher::new();
            value.hash(&mut hasher);
            if let Some(setting) = settings.get_mut(&property(name)) {
                setting.unshown = Unshown(Some(hasher.finish()));
            }
        }
        settings
    }

    /// The settings by their names. The values of properties are not shown, since they can be secrets.
    fn in_words(&self) -> Vec<(String, String)> {
        let properties = self.properties.iter();
        let properties =
            properties.map(|(name, _)| (property(name), "a value that is not shown".to_owned()));
        let guard = self.metadata.shrink_guard.as_ref();
        let guard = guard.map(ToString::to_string);
        let settings = [
            ("name", self.name.clone()),
            ("subscription", format!("{:?}", self.subscription)),
            ("starts", format!("{:?}", self.starts)),
            ("stop", format!("{:?}", self.stop)),
            ("bounded", self.bounded.to_string()),
            ("tick_interval", format!("{:?}", self.tick_interval)),
            (
                "discovery_interval",
                format!("{:?}", self.discovery_interval),
            ),
            ("memory", format!("{} bytes", self.memory.bytes())),
            ("commit_offsets", format!("{:?}", self.commit_offsets)),
            ("losses", format!("{:?}", self.losses)),
            ("identify_every", format!("{:?}", self.identify_every)),
            ("identify_within", format!("{:?}", self.identify_within)),
            ("shrink_guard", guard.unwrap_or_else(|| "off".to_owned())),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value));
        settings.into_iter().chain(properties).collect()
    }
}

fn property(name: &str) -> String {
    format!("property {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A digest was shown: whoever read it could try passwords until one had it.
    #[test]
    fn properties_that_differ_are_told_apart_and_nothing_is_shown_of_them() {
        let with = |password: &str| {
            let properties = ClientProperties::new().with("sasl.password", password);
            let settings = Settings {
                properties,
                ..Settings::default()
            };
            settings.configuration()
        };
        let (one, other) = (with("hunter2"), with("other3"));

        assert_ne!(one, other);
        assert_eq!(one, with("hunter2"));
        assert_eq!(format!("{one:?}"), format!("{other:?}"));
        let shown = one["property sasl.password"].to_string();
        assert_eq!(shown, "a value that is not shown");
    }

    /// Of what nobody set, a person could not tell that nobody did.
    #[test]
    fn a_setting_that_nobody_set_is_marked_and_no_other() {
        let settings = Settings {
            tick_interval: Duration::from_millis(20),
            properties: ClientProperties::new().with("client.id", "x"),
            ..Settings::default()
        };

        let configuration = settings.configuration();

        let set = configuration.iter().filter(|(_, one)| !one.is_default);
        let names: Vec<_> = set.map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["property client.id", "tick_interval"]);
        assert_eq!(configuration["tick_interval"].to_string(), "20ms");
        assert_eq!(configuration["bounded"].to_string(), "false (default)");
    }
}
