//! A command in a pseudo-terminal: the test types, and reads what a person would see.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// How long the screen may stay without what is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the terminal sends for Ctrl-C and Ctrl-D.
pub(crate) const CTRL_C: &str = "\u{3}";
pub(crate) const CTRL_D: &str = "\u{4}";

/// A running command whose stdin, stdout and stderr are a terminal of its own.
pub(crate) struct TypedCommand {
    child: Child,
    keyboard: File,
    output: Receiver<Vec<u8>>,
    screen: Vec<u8>,
    /// How much of the screen the test has already looked at.
    read: usize,
}

impl TypedCommand {
    /// Starts a command. `setsid` makes the terminal its controlling one, so that Ctrl-C becomes a signal.
    pub(crate) fn start(command: &Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let path = std::ffi::OsString::from_vec(ptsname(&master, Vec::new()).unwrap().into_bytes());
        let side = || OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mut typed = Command::new("setsid");
        typed.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args());
        typed.current_dir(command.get_current_dir().unwrap());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => typed.env(name, value),
                None => typed.env_remove(name),
            };
        }
        let child = typed.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();
        let keyboard = File::from(master);
        let mut shown = keyboard.try_clone().unwrap();
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The read fails when the command has ended and closed its terminal.
            while let Ok(read @ 1..) = shown.read(&mut bytes) {
                if sender.send(bytes[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keyboard, output, screen: Vec::new(), read: 0 }
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen shows a text after what was looked at before. Returns what stands before it.
    pub(crate) fn until(&mut self, wanted: &str) -> String {
        let began = Instant::now();
        loop {
            let rest = String::from_utf8_lossy(&self.screen[self.read..]).into_owned();
            if let Some(at) = rest.find(wanted) {
                self.read += at + wanted.len();
                return rest[..at].to_owned();
            }
            let left = PATIENCE.saturating_sub(began.elapsed());
            let shown = self.output.recv_timeout(left);
            assert!(shown.is_ok(), "{wanted:?} was to be shown, there is {rest:?} ({shown:?})");
            self.screen.extend(shown.unwrap());
        }
    }

    /// The exit code of a command that is about to end.
    pub(crate) fn code(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}
