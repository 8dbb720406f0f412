//! `cargo xtask dist`: makes what is installed on other machines: an archive with the binary, a Debian package, and the
//! source with a formula of Homebrew.
//!
//! The binary is linked statically with musl if that target is installed. Otherwise it needs a C library, and the
//! package asks for the version that it needs. The binary itself makes its manual pages and completions, so it has to
//! be one for this machine. This file owns their layout, and knows nothing of the code.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::{build, workspace};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Files of the workspace that are installed, and where.
const FILES: [(&str, &str); 6] = [
    ("ops/herma.service", "lib/systemd/system/herma.service"),
    ("ops/herma.toml", "etc/herma/herma.toml"),
    ("README.md", "usr/share/doc/herma/README.md"),
    ("CHANGELOG.md", "usr/share/doc/herma/CHANGELOG.md"),
    ("LICENSE-MIT", "usr/share/doc/herma/LICENSE-MIT"),
    ("LICENSE-APACHE", "usr/share/doc/herma/LICENSE-APACHE"),
];

/// Completions of shells, and where they belong.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/herma"),
    ("zsh", "zsh/vendor-completions/_herma"),
    ("fish", "fish/vendor_completions.d/herma.fish"),
];

/// The project has no address to write to.
const MAINTAINER: &str = "The authors of Herma <herma@localhost>";

const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: herma

Files: *
Copyright: the authors of Herma
License: Expat or Apache-2.0
 The texts of both licences are in LICENSE-MIT and LICENSE-APACHE beside this
 file. On Debian the second is also in /usr/share/common-licenses/Apache-2.0.
";

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
    let built = build::target_directory()?;
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--release", "--package", "herma", "--locked"]);
    let (target, release) = if is_static {
        cargo.args(["--target", &musl]);
        (musl.clone(), built.join(&musl).join("release"))
    } else {
        println!("dist: the musl target is missing, so the binary needs the C library of this machine or a newer one");
        println!("dist: for a static one: rustup target add {musl}, and musl-gcc (Debian package: musl-tools)");
        // Without --target this is the build of `cargo build --release` and `cargo install`.
        (format!("{architecture}-unknown-linux-gnu"), built.join("release"))
    };
    succeed(&mut cargo)?;
    let dist = built.join("dist");
    let binary = dist.join("herma");
    install(&release.join("herma"), &binary, 0o755)?;
    succeed(Command::new("strip").arg(&binary))?;
    let archive = archive(&binary, &dist, &target)?;
    let package = package(&binary, &dist, architecture)?;
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
    pages(&directory)?;
    let file = dist.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--owner=0", "--group=0", "--sort=name", "-czf"]).arg(&file).arg("-C").arg(dist).arg(&name);
    succeed(&mut tar)?;
    Ok(file)
}

/// A Debian package. Its files belong to root, and its settings are kept when it is upgraded.
fn package(binary: &Path, dist: &Path, architecture: &str) -> io::Result<PathBuf> {
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
    let documents = root.join("usr/share/doc/herma");
    pages(&documents)?;
    write(&documents.join("copyright"), COPYRIGHT, 0o644)?;
    let date =
        workspace::output(Command::new("git").current_dir(workspace::root()).args(["log", "-1", "--format=%aD"]))?;
    write(&documents.join("changelog"), debian_changelog(date.trim()), 0o644)?;
    let manual = root.join("usr/share/man/man1");
    fs::create_dir_all(&manual)?;
    succeed(Command::new(binary).args(["man", "--output"]).arg(&manual))?;
    for (shell, file) in COMPLETIONS {
        let script = workspace::output(Command::new(binary).args(["completions", shell]))?;
        write(&root.join("usr/share").join(file), script, 0o644)?;
    }
    let mut compress = Command::new("gzip");
    succeed(compress.args(["--best", "--no-name", "--recursive"]).arg(&manual).arg(documents.join("changelog")))?;
    write(&root.join("DEBIAN/control"), control(architecture, c_library(&fs::read(binary)?)), 0o644)?;
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

/// Puts the pages that README.md leads to beside it.
fn pages(directory: &Path) -> io::Result<()> {
    let mut list = Command::new("git");
    list.current_dir(workspace::root()).args(["ls-files", "docs", "SECURITY.md", "CONTRIBUTING.md"]);
    for page in workspace::output(&mut list)?.lines() {
        install(&workspace::root().join(page), &directory.join(page), 0o644)?;
    }
    Ok(())
}

fn control(architecture: &str, c_library: Option<u32>) -> String {
    let libraries = c_library.map(|minor| format!(", libc6 (>= 2.{minor}), libgcc-s1")).unwrap_or_default();
    format!(
        "Package: herma\nVersion: {VERSION}\nArchitecture: {architecture}\nSection: net\nPriority: optional\n\
         Maintainer: {MAINTAINER}\nDepends: passwd{libraries}\nRecommends: ca-certificates\n\
         Description: session gateway for AI agents\n \
         Speaks the OpenAI API in front, calls any OpenAI-compatible model server\n \
         behind, and keeps every conversation in between.\n"
    )
}

/// The changelog in the form that Debian's tools read.
fn debian_changelog(date: &str) -> String {
    format!(
        "herma ({VERSION}) unstable; urgency=medium\n\n  * CHANGELOG.md beside this file has the changes.\n\n \
         -- {MAINTAINER}  {date}\n"
    )
}

/// The newest glibc 2.N whose symbols a binary names. `None` if it is static.
fn c_library(binary: &[u8]) -> Option<u32> {
    const SYMBOL: &[u8] = b"GLIBC_2.";
    let versions = binary.windows(SYMBOL.len()).enumerate().filter(|(_, window)| *window == SYMBOL);
    let digits = versions.map(|(at, _)| binary[at + SYMBOL.len()..].iter().take_while(|byte| byte.is_ascii_digit()));
    digits.map(|digits| digits.fold(0, |number, digit| number * 10 + u32::from(digit - b'0'))).max()
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
    fn a_package_asks_for_the_newest_c_library_that_its_binary_names() {
        assert_eq!(c_library(b"\0GLIBC_2.34\0GLIBC_2.4\0GLIBC_2.2.5\0"), Some(34));
        assert!(control("amd64", Some(34)).contains("\nDepends: passwd, libc6 (>= 2.34), libgcc-s1\n"));
        assert_eq!(c_library(b"static"), None);
        assert!(control("arm64", None).contains("\nArchitecture: arm64\n"));
        assert!(control("arm64", None).contains("\nDepends: passwd\n"));
    }

    #[test]
    fn all_files_of_the_package_are_in_the_workspace() {
        for (from, _) in FILES {
            assert!(workspace::root().join(from).is_file(), "{from}");
        }
    }
}
