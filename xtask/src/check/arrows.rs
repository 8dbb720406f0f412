//! Which crates may depend on which: the layers of the workspace, and the owner of each outside library.
//!
//! A crate depends on crates of lower layers only. Dev-dependencies are not restricted. The testkit may only be a
//! dev-dependency, except in xtask.

use std::io;

use serde_json::Value;

use super::Finding;
use crate::workspace;

/// The layers, lowest first. A crate that is not listed here is a finding.
const LAYERS: [&[&str]; 6] = [
    &["herma-model"],
    &["herma-wire", "herma-turn", "herma-store", "herma-config", "herma-outbound"],
    &["herma-store-sqlite", "herma-store-postgres", "herma-upstream", "herma-tools", "herma-memory", "herma-telemetry"],
    &["herma-gateway"],
    &["herma-http", "herma-acp"],
    &["herma"],
];

/// Crates for tests and tasks. They are outside the layers, and no other crate may have them as normal dependencies.
const TOOLS: [&str; 2] = ["herma-testkit", "xtask"];

/// Libraries that only one crate may depend on.
const OWNERS: [(&str, &str); 5] = [
    ("axum", "herma-http"),
    ("rusqlite", "herma-store-sqlite"),
    ("tokio-postgres", "herma-store-postgres"),
    ("rmcp", "herma-tools"),
    ("agent-client-protocol", "herma-acp"),
];

/// Crates that must not depend on tokio, directly or through others.
const WITHOUT_TOKIO: [&str; 3] = ["herma-model", "herma-wire", "herma-turn"];

/// A crate of the workspace with the names of its dependencies.
#[derive(Debug)]
struct Member {
    name: String,
    manifest: String,
    normal: Vec<String>,
}

/// Reads the crates and their dependencies from cargo and checks them.
pub(super) fn check() -> io::Result<Vec<Finding>> {
    let mut metadata = workspace::cargo();
    metadata.args(["metadata", "--no-deps", "--format-version", "1"]);
    let members = members(&serde_json::from_str(&workspace::output(&mut metadata)?)?);
    let mut findings: Vec<Finding> = members.iter().flat_map(judge).collect();
    for member in members.iter().filter(|member| WITHOUT_TOKIO.contains(&member.name.as_str())) {
        let mut tree = workspace::cargo();
        tree.args(["tree", "--package", &member.name, "--edges", "normal", "--prefix", "none", "--format", "{p}"]);
        findings.extend(runtime(member, &workspace::output(&mut tree)?));
    }
    Ok(findings)
}

fn members(metadata: &Value) -> Vec<Member> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let root = format!("{}/", text(&metadata["workspace_root"]));
    let member = |package: &Value| {
        let dependencies = package["dependencies"].as_array().map_or(&[][..], Vec::as_slice);
        let manifest = text(&package["manifest_path"]);
        Member {
            name: text(&package["name"]),
            manifest: manifest.strip_prefix(&root).map(str::to_owned).unwrap_or(manifest),
            normal: dependencies.iter().filter(|one| one["kind"] != "dev").map(|one| text(&one["name"])).collect(),
        }
    };
    packages.iter().map(member).collect()
}

fn judge(member: &Member) -> Vec<Finding> {
    let finding = |message: String| Finding::new(&member.manifest, message);
    let Member { name, .. } = member;
    if TOOLS.contains(&name.as_str()) {
        return Vec::new();
    }
    let Some(layer) = layer(name) else {
        let place = "give it a layer in xtask/src/check/arrows.rs, as docs/ARCHITECTURE.md places it";
        return vec![finding(format!("{name} has no place among the crates: {place}"))];
    };
    let mut findings = Vec::new();
    for dependency in &member.normal {
        if TOOLS.contains(&dependency.as_str()) {
            findings.push(finding(format!("{dependency} is for tests: move it to [dev-dependencies]")));
        } else if is_ours(dependency) && self::layer(dependency).is_none_or(|theirs| theirs >= layer) {
            findings.push(finding(format!(
                "{name} must not depend on {dependency}: arrows point to lower layers only; move what is shared below \
                 both, or pass it in from above"
            )));
        }
        for (library, owner) in OWNERS {
            if dependency == library && name != owner {
                findings.push(finding(format!("only {owner} may depend on {library}: put what needs it there")));
            }
        }
    }
    findings
}

fn runtime(member: &Member, tree: &str) -> Option<Finding> {
    let reached = tree.lines().any(|line| line == "tokio" || line.starts_with("tokio "));
    let name = &member.name;
    reached.then(|| {
        let message = format!("{name} must build without tokio: `cargo tree -p {name} -e normal -i tokio` says whence");
        Finding::new(&member.manifest, message)
    })
}

fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&name))
}

fn is_ours(name: &str) -> bool {
    name == "herma" || name.starts_with("herma-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn member(name: &str, normal: &[&str]) -> Member {
        let normal = normal.iter().map(|&one| one.to_owned()).collect();
        Member { name: name.to_owned(), manifest: format!("{name}/Cargo.toml"), normal }
    }

    #[test]
    fn arrows_that_point_down_are_fine() {
        for (name, normal) in [
            ("herma-wire", &["herma-model", "serde"][..]),
            ("herma-upstream", &["herma-wire", "herma-model", "tokio"]),
            ("herma-gateway", &["herma-store", "herma-upstream", "herma-turn"]),
            ("herma-http", &["herma-gateway", "axum"]),
            ("herma-store-sqlite", &["herma-store", "rusqlite"]),
            ("herma", &["herma-http", "herma-acp", "herma-store-sqlite"]),
            ("xtask", &["axum", "rusqlite"]),
        ] {
            assert_eq!(judge(&member(name, normal)), [], "{name}");
        }
    }

    #[test]
    fn arrows_back_sideways_and_to_strangers_are_found() {
        for (name, dependency) in [
            ("herma-model", "herma-wire"),
            ("herma-wire", "herma-turn"),
            ("herma-http", "herma-acp"),
            ("herma-acp", "herma-http"),
            ("herma-store-sqlite", "herma-store-postgres"),
            ("herma-gateway", "herma-http"),
            ("herma-gateway", "axum"),
            ("herma-store", "rusqlite"),
            ("herma-gateway", "herma-testkit"),
            ("herma-turn", "herma-unheard-of"),
        ] {
            let findings = judge(&member(name, &[dependency]));
            assert_eq!(findings.len(), 1, "{name} -> {dependency}");
            assert!(findings[0].message.contains(dependency), "{findings:?}");
        }
        assert!(judge(&member("herma-helpers", &[]))[0].message.contains("no place"));
    }

    #[test]
    fn dev_dependencies_are_free() {
        let metadata = json!({"workspace_root": "/w", "packages": [{
        "name": "herma-turn", "manifest_path": "/w/crates/turn/Cargo.toml", "dependencies": [
            {"name": "herma-model", "kind": null},
            {"name": "herma-testkit", "kind": "dev"},
            {"name": "axum", "kind": "dev"},
        ]}]});
        let members = members(&metadata);
        assert_eq!(members[0].manifest, "crates/turn/Cargo.toml");
        assert_eq!(members[0].normal, ["herma-model"]);
        assert_eq!(judge(&members[0]), []);
    }

    #[test]
    fn tokio_is_found_by_its_own_name_only() {
        let turn = member("herma-turn", &[]);
        assert!(runtime(&turn, "herma-turn v0.1.0\nserde v1.0.0\ntokio-macros v2.0.0").is_none());
        assert!(runtime(&turn, "herma-turn v0.1.0\ntokio v1.54.1 (*)").is_some());
    }
}
