//! Checks that relative links in Markdown lead to a file of the workspace and, if they name one, to a heading in it.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use super::Finding;
use crate::workspace::SourceFile;

/// Checks every link of every Markdown file.
pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let by_path: HashMap<&Path, &SourceFile> = files.iter().map(|file| (file.path.as_path(), file)).collect();
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.extension() == "md") {
        for (line, target) in targets(&file.text) {
            if let Some(complaint) = broken(file, target, &by_path) {
                findings.push(Finding::at(&file.path, line, complaint));
            }
        }
    }
    findings
}

fn broken(file: &SourceFile, target: &str, by_path: &HashMap<&Path, &SourceFile>) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() { file.path.clone() } else { resolve(&file.path, path) };
    let is_directory = || by_path.keys().any(|known| known.starts_with(&path));
    let Some(linked) = by_path.get(path.as_path()) else {
        let complaint = || format!("the link {target} leads to no file: write where the file is now, or drop it");
        return (!is_directory()).then(complaint);
    };
    let has_heading = heading.is_empty() || linked.extension() != "md" || anchors(&linked.text).any(|a| a == heading);
    (!has_heading).then(|| format!("the link {target} names a heading that {} does not have", path.display()))
}

/// The path, from the workspace root, that a link in a file leads to.
fn resolve(from: &Path, link: &str) -> PathBuf {
    let mut path = from.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            Component::RootDir => path.clear(),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    path
}

/// Lines outside code fences, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        (!fenced).then_some((index + 1, line))
    })
}

/// The targets of inline links, images and reference definitions, with line numbers.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        for (at, _) in line.match_indices("](") {
            let in_code = line[..at].matches('`').count() % 2 == 1;
            let inside = line[at + 2..].split([')', ' ']).next().unwrap_or_default();
            if !in_code && !inside.is_empty() {
                found.push((number, inside));
            }
        }
        if let Some((_, target)) = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) {
            found.extend(target.split_whitespace().next().map(|target| (number, target)));
        }
    }
    found
}

/// The anchors that a forge makes from the headings of a file.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    prose(text).filter(|(_, line)| line.starts_with('#')).map(|(_, line)| {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(text: &str) -> Vec<String> {
        let file = |path: &str, text: &str| SourceFile { path: path.into(), text: text.to_owned() };
        let api = "# API\n\n## Errors, and what then\n```\n# no heading\n```\n";
        let files = [
            file("docs/README.md", text),
            file("docs/API.md", api),
            file("src/main.rs", ""),
            file("docs/adr/1.md", ""),
        ];
        check(&files).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn links_to_files_directories_headings_and_the_web_are_fine() {
        for text in [
            "[a](API.md) and [b](../src/main.rs)",
            "[a](API.md#errors-and-what-then)",
            "[a](adr/)",
            "# Here\n[a](#here)",
            "[a](https://example.org/x#y)",
            "[a]: API.md",
            "```\n[a](nowhere.md)\n```",
            "`[a](nowhere.md)`",
        ] {
            assert_eq!(complaints(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn links_to_nowhere_are_found_with_their_line() {
        for (text, line) in [
            ("\n[a](gone.md)", 2),
            ("[a](API.md#gone)", 1),
            ("[a](API.md#no-heading)", 1),
            ("![a](../gone.png)", 1),
            ("[a]: gone.md", 1),
            ("# Here\n\n[a](#there)", 3),
        ] {
            let found = complaints(text);
            assert_eq!(found.len(), 1, "{text}");
            assert!(found[0].starts_with(&format!("docs/README.md:{line}: ")), "{found:?}");
        }
    }
}
