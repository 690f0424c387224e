//! The rules of the house that no compiler knows, checked by reading the sources.
//!
//! Each rule says why it is there. To change one, change the reason with it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use file::{File, bare, sources, words};

#[path = "tidy/file.rs"]
mod file;

/// A rule, with a text that breaks it so that it is known to work.
struct Rule {
    name: &'static str,
    reason: &'static str,
    /// The numbers of the lines of a file that break the rule.
    broken_at: fn(&File<'_>) -> Vec<usize>,
    /// A path and a text each.
    breaks: &'static [(&'static str, &'static str)],
    keeps: &'static [(&'static str, &'static str)],
}

const RULES: &[Rule] = &[
    Rule {
        name: "operators/ knows no Kafka",
        reason: "timely-splits is for whoever writes a source, of whatever it is; a name of one \
                 source in it is a thought of that source in it",
        broken_at: |file| {
            if !file.is_in(&["operators/src", "operators/Cargo.toml"]) {
                return Vec::new();
            }
            file.numbered(|line| line.to_lowercase().contains("kafka"))
        },
        breaks: &[
            ("operators/src/split.rs", "use rdkafka::Message;"),
            ("operators/src/log/mod.rs", "/// Like a Kafka topic."),
            ("operators/Cargo.toml", "rdkafka-sys = \"4\""),
        ],
        keeps: &[
            ("src/lib.rs", "use rdkafka::Message;"),
            ("operators/clippy.toml", "\"Kafka\""),
        ],
    },
    Rule {
        name: "the coordinator has no input, output or clock",
        reason: "it imports std, serde and its own crate's types only, and neither threads, clocks \
                 nor hash maps, so that the simulator can run it a million times the same way",
        broken_at: coordinator_reaches_out,
        breaks: &[
            (
                "operators/src/coordinator/mod.rs",
                "use timely::progress::Timestamp;",
            ),
            (
                "operators/src/coordinator/mod.rs",
                "pub(crate) use tracing::debug;",
            ),
            (
                "operators/src/coordinator/plan.rs",
                "fn f() { timely::execute() }",
            ),
            (
                "operators/src/coordinator/plan.rs",
                "use std::time::{Duration, Instant};",
            ),
            (
                "operators/src/coordinator/plan.rs",
                "let now = SystemTime::now();",
            ),
            ("operators/src/coordinator.rs", "use std::thread;"),
            (
                "operators/src/coordinator.rs",
                "let x = std::collections::HashMap::new();",
            ),
        ],
        keeps: &[
            (
                "operators/src/coordinator/mod.rs",
                "use std::time::Duration;\nuse crate::tick::Tick;",
            ),
            (
                "operators/src/coordinator/mod.rs",
                "#[cfg(test)]\nmod tests {\n    use proptest::p;\n}\n",
            ),
            (
                "operators/src/coordinator/tests.rs",
                "use proptest::prelude::*;",
            ),
            (
                "operators/src/reader/mod.rs",
                "use timely::progress::Timestamp;",
            ),
        ],
    },
    Rule {
        name: "rdkafka is named in src/fetcher, src/discovery and src/embedded only",
        reason: "librdkafka is not the end: another client must fit behind the same traits",
        broken_at: |file| {
            if !file.is_in(&["src"])
                || file.is_in(&["src/fetcher", "src/discovery", "src/embedded"])
            {
                return Vec::new();
            }
            file.code(names_rdkafka)
        },
        breaks: &[
            ("src/model/split.rs", "use rdkafka::Message;"),
            (
                "src/source/mod.rs",
                "let x = rdkafka_sys::rd_kafka_version();",
            ),
        ],
        keeps: &[
            ("src/discovery.rs", "use rdkafka::Message;"),
            (
                "src/source/mod.rs",
                "// rdkafka does this\nlet x = \"rdkafka\"; // rdkafka",
            ),
            ("tests/support/kafka.rs", "use rdkafka::Message;"),
        ],
    },
    Rule {
        name: "rdkafka is in no public signature",
        reason: "a type of rdkafka that users see makes each of its releases a breaking one of ours",
        broken_at: rdkafka_in_signatures,
        breaks: &[
            ("src/fetcher/mod.rs", "pub fn client() -> rdkafka::Client {"),
            (
                "src/fetcher/mod.rs",
                "pub fn open(\n    a: u8,\n    b: rdkafka_sys::rd_kafka_t,\n) {",
            ),
            (
                "src/discovery/mod.rs",
                "use rdkafka::error::KafkaError;\npub enum E {\n    A,\n    B(KafkaError),\n}",
            ),
            (
                "src/discovery/mod.rs",
                "use rdkafka::{\n    Message,\n};\npub struct S {\n    pub m: Message,\n}",
            ),
            (
                "src/embedded/mod.rs",
                "pub use rdkafka::mocking::MockCluster;",
            ),
        ],
        keeps: &[
            (
                "src/fetcher/mod.rs",
                "use rdkafka::Client;\npub struct S {\n    client: Client,\n}",
            ),
            (
                "src/fetcher/mod.rs",
                "use rdkafka::Client;\npub fn f() {\n    Client::new();\n}",
            ),
            (
                "src/fetcher/mod.rs",
                "pub(crate) fn f() -> rdkafka::Client {",
            ),
            (
                "src/fetcher/ffi/mod.rs",
                "pub fn client() -> rdkafka_sys::rd_kafka_t {",
            ),
        ],
    },
    Rule {
        name: "threads start where they are expected",
        reason: "a thread must be stopped, bounded and named; the places are src/fetcher, \
                 src/discovery, src/metadata, src/embedded, src/supervise, operators/src/log, and the \
                 test kit in operators/src/conformance",
        broken_at: |file| {
            let places = [
                "src/fetcher",
                "src/discovery",
                "src/metadata",
                "src/embedded",
                "src/supervise",
            ];
            if !file.is_in(&["src", "operators/src"])
                || file.is_in(&places)
                || file.is_in(&["operators/src/log", "operators/src/conformance"])
            {
                return Vec::new();
            }
            file.code(|line| {
                let starts = ["thread::spawn", "thread::Builder", "thread::scope"];
                starts.iter().any(|start| line.contains(start))
            })
        },
        breaks: &[
            ("src/source/mod.rs", "std::thread::spawn(|| ());"),
            ("operators/src/enumerator/mod.rs", "thread::Builder::new()"),
        ],
        keeps: &[
            ("operators/src/log/mod.rs", "thread::Builder::new()"),
            (
                "src/source/mod.rs",
                "#[cfg(test)]\nmod tests {\n    thread::spawn(f);\n}",
            ),
        ],
    },
    Rule {
        name: "unsafe is in src/fetcher/ffi only, each with its SAFETY argument above",
        reason: "what the compiler cannot check is read by people, in one place; besides, benchmarks \
                 have files with the bare loops that the source is compared with, and one that asks for CPU time, and \
                 a test has an allocator that counts",
        broken_at: unsafe_without_argument,
        breaks: &[
            ("src/fetcher/mod.rs", "// SAFETY: fine.\nunsafe { f() }"),
            (
                "src/fetcher/ffi/mod.rs",
                "fn f() {\n    // Why not.\n    unsafe { g() }",
            ),
            (
                "src/fetcher/ffi/mod.rs",
                "// SAFETY: of a.\nlet a = unsafe { f() };\nunsafe { g() }",
            ),
            ("examples/tail.rs", "unsafe { f() }"),
            ("benches/read/main.rs", "// SAFETY: fine.\nunsafe { f() }"),
            ("benches/read/native.rs", "unsafe { f() }"),
        ],
        keeps: &[
            (
                "src/fetcher/ffi/mod.rs",
                "// SAFETY: it lives,\n// long.\nlet a =\n    unsafe { f() };",
            ),
            (
                "src/fetcher/ffi/mod.rs",
                "// SAFETY: it moves.\n#[expect(x)]\nunsafe impl Send for A {}",
            ),
            (
                "src/fetcher/ffi/mod.rs",
                "/// # Safety\n///\n/// Live.\npub(crate) unsafe fn f() {}",
            ),
            ("src/lib.rs", "#![deny(unsafe_code)]"),
        ],
    },
    Rule {
        name: "a file has at most 500 lines",
        reason: "one that outgrows this is about two things: make it a folder",
        broken_at: |file| {
            (file.text.lines().count() > MOST_LINES)
                .then_some(MOST_LINES + 1)
                .into_iter()
                .collect()
        },
        // The texts are made in the test.
        breaks: &[],
        keeps: &[],
    },
];

const MOST_LINES: usize = 500;

const README_LINES: usize = 100;

fn names_rdkafka(line: &str) -> bool {
    words(line).any(|word| word == "rdkafka" || word == "rdkafka_sys")
}

fn coordinator_reaches_out(file: &File<'_>) -> Vec<usize> {
    if !file.is_in(&["operators/src/coordinator"]) {
        return Vec::new();
    }
    file.code(|line| {
        let line = line.trim_start();
        let item = line
            .strip_prefix("pub(crate) ")
            .or_else(|| line.strip_prefix("pub "))
            .unwrap_or(line);
        let root = item
            .strip_prefix("use ")
            .and_then(|path| words(path).next());
        let stranger =
            root.is_some_and(|root| !["std", "serde", "crate", "super", "self"].contains(&root));
        let named = ["Instant", "SystemTime", "HashMap", "HashSet"];
        stranger
            || line.contains("timely::")
            || line.contains("std::thread")
            || words(line).any(|word| named.contains(&word))
    })
}

/// Looks at each public item from its `pub` to the end of what users see of it.
fn rdkafka_in_signatures(file: &File<'_>) -> Vec<usize> {
    if !file.is_in(&["src"]) || file.is_in(&["src/fetcher/ffi"]) {
        return Vec::new();
    }
    let lines = file.code_lines();
    let imported = imported_of_rdkafka(&lines);
    let is_named =
        |line: &str| names_rdkafka(line) || words(line).any(|word| imported.contains(word));
    let mut broken = Vec::new();
    for (start, (_, first)) in lines.iter().enumerate() {
        let item = first.trim_start();
        if !item.starts_with("pub ") {
            continue;
        }
        // Of an enum and a trait users see the body too; fields of a struct have a `pub` each.
        let whole = item.starts_with("pub enum ") || item.starts_with("pub trait ");
        let indent = first.len() - item.len();
        for (at, line) in &lines[start..] {
            if is_named(line) {
                broken.push(*at);
            }
            let ends = if whole {
                line.trim() == "}" && line.len() == indent + 1
            } else {
                line.contains('{') || line.trim_end().ends_with([';', ','])
            };
            // Parameters end in commas too, but one of them never ends the signature.
            let in_parameters = item.contains(" fn ") && !line.contains(['{', ';']);
            if ends && !in_parameters {
                break;
            }
        }
    }
    broken.dedup();
    broken
}

/// The types that the file calls by their names alone.
fn imported_of_rdkafka(lines: &[(usize, String)]) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    let mut importing = false;
    for (_, line) in lines {
        let is_use = line.trim_start().starts_with("use ");
        importing = importing || is_use && names_rdkafka(line);
        if importing {
            names.extend(words(line).filter(|word| word.starts_with(char::is_uppercase)));
            importing = !line.contains(';');
        }
    }
    names
}

fn unsafe_without_argument(file: &File<'_>) -> Vec<usize> {
    let lines: Vec<&str> = file.text.lines().collect();
    let is_unsafe = |line: &str| words(&bare(line)).any(|word| word == "unsafe");
    let has_argument = |at: usize| {
        // Up through the comment, attributes, and the beginning of the statement.
        let above = lines[..at].iter().rev().map(|line| line.trim());
        let mut own = above.take_while(|line| {
            line.starts_with("//")
                || line.starts_with('#')
                || !line.is_empty() && !line.ends_with([';', '{', '}'])
        });
        own.any(|line| line.starts_with("// SAFETY:") || line == "/// # Safety")
    };
    let place = file.is_in(&[
        "src/fetcher/ffi",
        "benches/encode.rs",
        "benches/latency/bare.rs",
        "benches/read/native.rs",
        "benches/support/meter.rs",
        "tests/allocations.rs",
    ]);
    let all = (0..lines.len()).filter(|at| is_unsafe(lines[*at]));
    all.filter(|at| !place || !has_argument(*at))
        .map(|at| at + 1)
        .collect()
}

#[test]
fn the_sources_keep_the_rules() {
    let sources = sources();
    assert!(
        sources
            .iter()
            .any(|(path, _)| path == "operators/src/lib.rs"),
        "sources are found"
    );
    let mut broken = String::new();
    for rule in RULES {
        for (path, text) in &sources {
            for line in (rule.broken_at)(&File { path, text }) {
                broken += &format!("{path}:{line}: {}, because {}\n", rule.name, rule.reason);
            }
        }
    }
    assert!(broken.is_empty(), "\n{broken}");
}

#[test]
fn each_rule_can_be_broken_and_kept() {
    for rule in RULES {
        for (path, text) in rule.breaks {
            let broken = (rule.broken_at)(&File { path, text });
            assert!(
                !broken.is_empty(),
                "'{}' lets pass, as {path}:\n{text}",
                rule.name
            );
        }
        for (path, text) in rule.keeps {
            let broken = (rule.broken_at)(&File { path, text });
            assert!(
                broken.is_empty(),
                "'{}' stops, as {path}:\n{text}",
                rule.name
            );
        }
    }
}

#[test]
fn a_file_can_be_too_long() {
    let too_long = |lines: usize| {
        let text = "//\n".repeat(lines);
        let file = File {
            path: "src/lib.rs",
            text: &text,
        };
        RULES.iter().any(|rule| !(rule.broken_at)(&file).is_empty())
    };

    assert!(!too_long(MOST_LINES));
    assert!(too_long(MOST_LINES + 1));
}

/// What a newcomer reads first is read in one go, or not at all.
#[test]
fn a_readme_is_short() {
    for path in ["README.md", "operators/README.md"] {
        let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        let text = fs::read_to_string(whole).expect("a crate has a README");

        let lines = text.lines().count();

        assert!(
            lines <= README_LINES,
            "{path} has {lines} lines, expected {README_LINES} at most"
        );
    }
}
