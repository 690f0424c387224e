//! Damages what brokers have stored.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

/// Changes bytes in all segments of one partition below `root`, and says in how many places.
pub(super) fn overwrite(root: &Path, partition: &str, old: &[u8], new: &[u8]) -> usize {
    let mut found = 0;
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder is readable") {
            let path = entry.expect("the folder is readable").path();
            let is_segment = path.extension().is_some_and(|name| name == "log");
            if path.is_dir() {
                folders.push(path);
            } else if is_segment && folder.ends_with(partition) {
                found += overwrite_in(&path, old, new);
            }
        }
    }
    found
}

fn overwrite_in(path: &Path, old: &[u8], new: &[u8]) -> usize {
    let bytes = fs::read(path).expect("the segment is readable");
    let found: Vec<_> = bytes
        .windows(old.len())
        .enumerate()
        .filter(|(_, window)| *window == old)
        .map(|(at, _)| at)
        .collect();
    // In place: the broker has the file open.
    let file = fs::OpenOptions::new().write(true).open(path);
    let mut file = file.expect("the segment is writable");
    for at in &found {
        let at = u64::try_from(*at).expect("a file is not that long");
        file.seek(SeekFrom::Start(at))
            .and_then(|_| file.write_all(new))
            .expect("the segment is writable");
    }
    found.len()
}
