//! The manifests for Kubernetes: that they are YAML, and that what they say in two places agrees.
#![expect(
    clippy::unwrap_used,
    reason = "what a test cannot arrange is a failed test"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use granit_parser::{Event, Parser};
use timely_kafka::metadata::{FileMetadataService, MetadataService};

/// A value of a manifest.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    Text(String),
    List(Vec<Self>),
    Map(BTreeMap<String, Self>),
}

impl Node {
    /// What is at a path of names; numbers count from zero.
    fn at(&self, path: &str) -> &Self {
        self.find(path)
            .unwrap_or_else(|| panic!("no {path} in {self:#?}"))
    }

    fn find(&self, path: &str) -> Option<&Self> {
        path.split('/').try_fold(self, |node, name| match node {
            Self::Map(entries) => entries.get(name),
            Self::List(nodes) => nodes.get(name.parse::<usize>().ok()?),
            Self::Text(_) => None,
        })
    }

    fn text(&self, path: &str) -> &str {
        match self.at(path) {
            Self::Text(text) => text,
            other => panic!("{path}: expected a text, and not {other:?}"),
        }
    }

    fn list(&self, path: &str) -> &[Self] {
        match self.find(path) {
            Some(Self::List(nodes)) => nodes,
            Some(other) => panic!("{path}: expected a list, and not {other:?}"),
            None => &[],
        }
    }
}

/// The documents of a text.
fn documents(text: &str) -> Vec<Node> {
    let events = Parser::new_from_str(text).map(|event| event.expect("it is YAML").0);
    let mut events = events.filter(|event| !matches!(event, Event::Comment(..)));
    let mut documents = Vec::new();
    while let Some(event) = events.next() {
        if matches!(event, Event::DocumentStart(..)) {
            let root = events.next().expect("a document has a value");
            documents.push(node(&root, &mut events));
        }
    }
    documents
}

fn node<'a>(event: &Event<'a>, events: &mut impl Iterator<Item = Event<'a>>) -> Node {
    let mut below = Vec::new();
    match event {
        Event::Scalar(text, ..) => return Node::Text(text.to_string()),
        Event::SequenceStart(..) | Event::MappingStart(..) => loop {
            match events.next().expect("what begins ends") {
                Event::SequenceEnd => return Node::List(below),
                Event::MappingEnd => break,
                part => below.push(node(&part, events)),
            }
        },
        other => panic!("expected a value, and not {other:?}"),
    }
    let mut entries = BTreeMap::new();
    for pair in below.chunks(2) {
        let [Node::Text(name), value] = pair else {
            panic!("expected a name and a value, and not {pair:?}");
        };
        let double = entries.insert(name.clone(), value.clone());
        assert_eq!(double, None, "{name} is there twice");
    }
    Node::Map(entries)
}

/// All manifests, by their names.
fn manifests() -> Vec<(PathBuf, Vec<Node>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/kubernetes");
    let files = std::fs::read_dir(folder).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let manifests: Vec<_> = files
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            (path, documents(&text))
        })
        .collect();
    assert_eq!(manifests.len(), 2);
    manifests
}

fn of_kind<'a>(documents: &'a [Node], kind: &str) -> &'a Node {
    let found = documents.iter().find(|one| one.text("kind") == kind);
    found.unwrap_or_else(|| panic!("no {kind}"))
}

#[test]
fn the_names_that_a_manifest_says_in_two_places_agree() {
    for (path, documents) in manifests() {
        let path = path.display();
        let set = of_kind(&documents, "StatefulSet");
        let pod = set.at("spec/template/spec");
        let container = pod.at("containers/0");

        let service = of_kind(&documents, "Service");
        let served = set.text("spec/serviceName");
        assert_eq!(served, service.text("metadata/name"), "{path}");
        assert_eq!(service.text("spec/clusterIP"), "None", "{path}");
        let labels = set.at("spec/template/metadata/labels");
        for selector in [
            set.at("spec/selector/matchLabels"),
            service.at("spec/selector"),
            of_kind(&documents, "NetworkPolicy").at("spec/podSelector/matchLabels"),
        ] {
            assert_eq!(selector, labels, "{path}");
        }
        let port = service.text("spec/ports/0/port");
        assert_eq!(container.text("ports/0/containerPort"), port, "{path}");
        if let Some(Node::Text(account)) = pod.find("serviceAccountName") {
            let known = of_kind(&documents, "ServiceAccount");
            assert_eq!(account, known.text("metadata/name"), "{path}");
        }
        let config = of_kind(&documents, "ConfigMap").text("metadata/name");
        assert_eq!(pod.text("volumes/0/configMap/name"), config, "{path}");
        let volumes = pod
            .list("volumes")
            .iter()
            .map(|volume| volume.text("name"))
            .chain(
                (set.list("spec/volumeClaimTemplates").iter())
                    .map(|claim| claim.text("metadata/name")),
            );
        let volumes: Vec<_> = volumes.collect();
        for mount in container.list("volumeMounts") {
            assert!(volumes.contains(&mount.text("name")), "{path}: {mount:?}");
        }
    }
}

#[test]
fn a_manifest_starts_as_many_processes_as_it_names() {
    for (path, documents) in manifests() {
        let path = path.display();
        let set = of_kind(&documents, "StatefulSet");
        let (name, replicas) = (set.text("metadata/name"), set.text("spec/replicas"));
        let service = set.text("spec/serviceName");
        let port = of_kind(&documents, "Service").text("spec/ports/0/port");
        let hosts: Vec<_> = (0..replicas.parse::<usize>().unwrap())
            .map(|index| format!("{name}-{index}.{service}:{port}"))
            .collect();

        let config = of_kind(&documents, "ConfigMap");
        let listed: Vec<_> = config.text("data/hosts").lines().collect();
        let arguments = set.text("spec/template/spec/containers/0/args/0");

        assert_eq!(listed, hosts, "{path}");
        assert!(arguments.contains(&format!("-n {replicas} ")), "{path}");
        assert!(arguments.contains("-p \"${HOSTNAME##*-}\""), "{path}");
    }
}

/// The log is in a volume that the pods keep, or in no volume at all.
#[test]
fn the_log_of_a_manifest_outlives_its_pods() {
    let mut stores = 0;
    for (path, documents) in manifests() {
        let path = path.display();
        let set = of_kind(&documents, "StatefulSet");
        let container = set.at("spec/template/spec/containers/0");
        let arguments = container.text("args/0");
        let mut words = arguments.split_whitespace();
        let log = words.find(|word| *word == "--log");
        let log = log.and_then(|_| words.next());
        let log = log.unwrap_or_else(|| panic!("{path}: no log in: {arguments}"));

        let claims = set.list("spec/volumeClaimTemplates");
        if log.starts_with("s3://") {
            assert!(claims.is_empty(), "{path}");
            let environment = container.list("env").iter();
            let names: Vec<_> = environment.map(|one| one.text("name")).collect();
            assert!(names.contains(&"AWS_REGION"), "{path}: {names:?}");
            stores += 1;
        } else {
            let claimed = claims[0].text("metadata/name");
            let mut mounts = container.list("volumeMounts").iter();
            let mount = mounts.find(|mount| mount.text("name") == claimed).unwrap();
            assert!(log.starts_with(mount.text("mountPath")), "{path}: {log}");
        }
    }
    assert_eq!(stores, 1);
}

#[test]
fn the_streams_of_a_manifest_are_understood() {
    for (path, documents) in manifests() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("streams.yaml");
        let config = of_kind(&documents, "ConfigMap");
        std::fs::write(&file, config.text("data/streams.yaml")).unwrap();

        let deadline = Instant::now() + Duration::from_secs(60);
        let asked = FileMetadataService::new(&file).ask(deadline);

        asked.unwrap_or_else(|error| panic!("{}: {}", path.display(), error.words()));
    }
}
