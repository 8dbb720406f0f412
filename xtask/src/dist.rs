//! `cargo xtask dist`: makes what is installed on other machines: an archive with the binary, a Debian package, and the
//! source with a formula of Homebrew.
//!
//! The binary is linked statically with musl if that target is installed. Otherwise it is one for the C library of this
//! machine, and the package asks for that library. This file owns their layout, and knows nothing of the code.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::{build, workspace};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Files of the workspace that are installed, and where.
const FILES: [(&str, &str); 5] = [
    ("ops/herma.service", "lib/systemd/system/herma.service"),
    ("ops/herma.toml", "etc/herma/herma.toml"),
    ("README.md", "usr/share/doc/herma/README.md"),
    ("LICENSE-MIT", "usr/share/doc/herma/LICENSE-MIT"),
    ("LICENSE-APACHE", "usr/share/doc/herma/LICENSE-APACHE"),
];

/// Builds everything into `dist` of the target directory.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    if !arguments.is_empty() {
        eprintln!("usage: cargo xtask dist");
        return ExitCode::from(2);
    }
    match make() {
        Ok(made) => {
            for file in made {
                println!("dist: {}", file.display());
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("dist: {error}");
            ExitCode::FAILURE
        }
    }
}

fn make() -> io::Result<[PathBuf; 4]> {
    let architecture = std::env::consts::ARCH;
    let musl = format!("{architecture}-unknown-linux-musl");
    let is_static = has_target(&musl)?;
    let target = if is_static { musl } else { format!("{architecture}-unknown-linux-gnu") };
    if !is_static {
        println!("dist: the musl target is missing, so the binary needs the C library of this machine or a newer one");
        println!(
            "dist: for a static one: rustup target add {target}, and musl-gcc",
            target = target.replace("gnu", "musl")
        );
    }
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--release", "--package", "herma", "--locked", "--target", &target]);
    succeed(&mut cargo)?;
    let built = build::target_directory()?;
    let binary = built.join(&target).join("release").join("herma");
    let dist = built.join("dist");
    let archive = archive(&binary, &dist, &target)?;
    let package = package(&binary, &dist, architecture, is_static)?;
    let source = source(&dist)?;
    let formula = formula(&dist, &source)?;
    Ok([archive, package, source, formula])
}

/// Whether the compiler has a standard library for a target.
fn has_target(target: &str) -> io::Result<bool> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let root = workspace::output(Command::new(rustc).args(["--print", "sysroot"]))?;
    Ok(Path::new(root.trim()).join("lib/rustlib").join(target).join("lib").is_dir())
}

/// The binary, the unit and the texts, as a compressed archive.
fn archive(binary: &Path, dist: &Path, target: &str) -> io::Result<PathBuf> {
    let name = format!("herma-{VERSION}-{target}");
    let directory = emptied(&dist.join(&name))?;
    install(binary, &directory.join("herma"), 0o755)?;
    for (from, to) in FILES {
        let name = Path::new(to).file_name().unwrap_or_default();
        install(&workspace::root().join(from), &directory.join(name), 0o644)?;
    }
    let file = dist.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--owner=0", "--group=0", "--sort=name", "-czf"]).arg(&file).arg("-C").arg(dist).arg(&name);
    succeed(&mut tar)?;
    Ok(file)
}

/// A Debian package. Its files belong to root, and its settings are kept when it is upgraded.
fn package(binary: &Path, dist: &Path, architecture: &str, is_static: bool) -> io::Result<PathBuf> {
    let architecture = match architecture {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let root = emptied(&dist.join("deb"))?;
    install(binary, &root.join("usr/bin/herma"), 0o755)?;
    for (from, to) in FILES {
        install(&workspace::root().join(from), &root.join(to), 0o644)?;
    }
    write(&root.join("DEBIAN/control"), control(architecture, is_static), 0o644)?;
    write(&root.join("DEBIAN/conffiles"), "/etc/herma/herma.toml\n", 0o644)?;
    for script in ["postinst", "prerm"] {
        install(&workspace::root().join("ops/debian").join(script), &root.join("DEBIAN").join(script), 0o755)?;
    }
    let file = dist.join(format!("herma_{VERSION}_{architecture}.deb"));
    let mut build = Command::new("dpkg-deb");
    build.args(["--build", "--root-owner-group"]).arg(&root).arg(&file);
    succeed(&mut build)?;
    Ok(file)
}

fn control(architecture: &str, is_static: bool) -> String {
    let depends = if is_static { "" } else { "Depends: libc6, libgcc-s1\n" };
    format!(
        "Package: herma\nVersion: {VERSION}\nArchitecture: {architecture}\nSection: net\nPriority: optional\n\
         Maintainer: The authors of Herma <herma@localhost>\n{depends}Recommends: ca-certificates\n\
         Description: session gateway for AI agents\n \
         Speaks the OpenAI API in front, calls any OpenAI-compatible model server\n \
         behind, and keeps every conversation in between.\n"
    )
}

/// The source as it is committed.
fn source(dist: &Path) -> io::Result<PathBuf> {
    let file = dist.join(format!("herma-{VERSION}.tar.gz"));
    let mut git = Command::new("git");
    git.current_dir(workspace::root()).args([
        "archive",
        "--format=tar.gz",
        &format!("--prefix=herma-{VERSION}/"),
        "-o",
    ]);
    succeed(git.arg(&file).arg("HEAD"))?;
    Ok(file)
}

/// The formula for that source. Its address is the file itself, until the source is published elsewhere.
fn formula(dist: &Path, source: &Path) -> io::Result<PathBuf> {
    let digest = workspace::output(Command::new("sha256sum").arg(source))?;
    let template = fs::read_to_string(workspace::root().join("ops/herma.rb.in"))?;
    let digest = digest.split_whitespace().next().unwrap_or_default();
    let address = format!("file://{}", source.display());
    let text = template.replace("@version@", VERSION).replace("@sha256@", digest).replace("@url@", &address);
    let file = dist.join("herma.rb");
    write(&file, text, 0o644)?;
    Ok(file)
}

/// A directory without the files of an earlier run.
fn emptied(directory: &Path) -> io::Result<PathBuf> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::create_dir_all(directory)?;
    Ok(directory.to_owned())
}

fn install(from: &Path, to: &Path, mode: u32) -> io::Result<()> {
    write(to, fs::read(from)?, mode)
}

fn write(to: &Path, content: impl AsRef<[u8]>, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    fs::write(to, content)?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))
}

fn succeed(command: &mut Command) -> io::Result<()> {
    let status = command.status().map_err(|error| io::Error::other(format!("{command:?} cannot be run: {error}")))?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{command:?} failed"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_package_that_is_not_static_needs_the_c_library() {
        assert!(control("amd64", false).contains("\nDepends: libc6"));
        assert!(!control("arm64", true).contains("Depends"));
        assert!(control("arm64", true).contains("\nArchitecture: arm64\n"));
    }

    #[test]
    fn all_files_of_the_package_are_in_the_workspace() {
        for (from, _) in FILES {
            assert!(workspace::root().join(from).is_file(), "{from}");
        }
    }
}
