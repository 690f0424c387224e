//! What the rules read: source files, with and without what is not code.

use std::fs;
use std::path::Path;

/// A source file, by its path in the repository.
pub(crate) struct File<'a> {
    pub(crate) path: &'a str,
    pub(crate) text: &'a str,
}

impl File<'_> {
    /// Whether it belongs to one of these modules or folders, or is one of these files.
    pub(crate) fn is_in(&self, places: &[&str]) -> bool {
        places.iter().any(|place| {
            let rest = self.path.strip_prefix(place);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || rest == ".rs")
        })
    }

    /// The numbers of the lines for which `broken` holds.
    pub(crate) fn numbered(&self, broken: impl Fn(&str) -> bool) -> Vec<usize> {
        let lines = self.text.lines().enumerate();
        lines
            .filter(|(_, line)| broken(line))
            .map(|(at, _)| at + 1)
            .collect()
    }

    /// Like [`File::numbered`], for the lines of [`File::code_lines`].
    pub(crate) fn code(&self, broken: impl Fn(&str) -> bool) -> Vec<usize> {
        let lines = self.code_lines();
        lines
            .iter()
            .filter(|(_, line)| broken(line))
            .map(|(at, _)| *at)
            .collect()
    }

    /// The lines outside unit tests, by their numbers, each without comment and quoted text.
    pub(crate) fn code_lines(&self) -> Vec<(usize, String)> {
        if self.path.ends_with("/tests.rs") || self.path.contains("/tests/") {
            return Vec::new();
        }
        let mut lines = Vec::new();
        let mut in_tests = false;
        let mut before = "";
        for (at, line) in self.text.lines().enumerate() {
            let is_module = line.starts_with("mod ") || line.starts_with("pub(crate) mod ");
            if before == "#[cfg(test)]" && is_module && line.ends_with('{') {
                in_tests = true;
            }
            if !in_tests {
                lines.push((at + 1, bare(line)));
            }
            in_tests = in_tests && line != "}";
            before = line;
        }
        lines
    }
}

/// The line without what is in quotes or in a comment.
pub(crate) fn bare(line: &str) -> String {
    let mut bare = String::new();
    let mut quoted = false;
    let mut before = ' ';
    for c in line.chars() {
        if c == '"' && before != '\\' && before != '\'' {
            quoted = !quoted;
        } else if c == '/' && before == '/' && !quoted {
            bare.pop();
            break;
        } else if !quoted {
            bare.push(c);
        }
        before = if before == '\\' && c == '\\' { ' ' } else { c };
    }
    bare
}

/// Identifiers and keywords.
pub(crate) fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

/// All sources, as paths in the repository with their texts.
pub(crate) fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let folders = ["src", "tests", "examples", "benches", "scripts"];
    let crates = ["", "operators/"];
    for folder in crates
        .iter()
        .flat_map(|one| folders.map(|folder| format!("{one}{folder}")))
    {
        collect(root, &folder, &mut found);
    }
    let manifest = "operators/Cargo.toml";
    let text = fs::read_to_string(root.join(manifest)).expect("the crate has a manifest");
    found.push((manifest.to_owned(), text));
    found
}

fn collect(root: &Path, path: &str, found: &mut Vec<(String, String)>) {
    let full = root.join(path);
    if full.is_dir() {
        for entry in fs::read_dir(full).expect("the folder is readable") {
            let name = entry.expect("the folder is readable").file_name();
            let name = name.to_str().expect("names of sources are plain");
            collect(root, &format!("{path}/{name}"), found);
        }
    } else if let Ok(text) = fs::read_to_string(full) {
        found.push((path.to_owned(), text));
    }
}
