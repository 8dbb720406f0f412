//! A command in a pseudo-terminal: the test types, and reads what a person would see.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// How long the screen may stay without what is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the terminal sends for keys.
pub(crate) const CTRL_C: &str = "\u{3}";
pub(crate) const CTRL_D: &str = "\u{4}";
pub(crate) const CTRL_R: &str = "\u{12}";
pub(crate) const ENTER: &str = "\r";
pub(crate) const ALT_ENTER: &str = "\u{1b}\r";
pub(crate) const UP: &str = "\u{1b}[A";
pub(crate) const LEFT: &str = "\u{1b}[D";

/// The usual size of the terminal.
const ROWS: u16 = 24;
const COLUMNS: u16 = 80;

/// A running command whose stdin, stdout and stderr are a terminal of its own.
pub(crate) struct TypedCommand {
    child: Child,
    keyboard: File,
    output: Receiver<Vec<u8>>,
    screen: Vec<u8>,
    /// How much of the screen the test has already looked at.
    read: usize,
    /// The screen as a terminal emulator shows it.
    emulator: vt100::Parser,
}

impl TypedCommand {
    /// Starts a command. `setsid` makes the terminal its controlling one, so that Ctrl-C becomes a signal.
    pub(crate) fn start(command: &Command) -> Self {
        Self::start_in(command, ROWS, COLUMNS)
    }

    /// The same, in a terminal of this size.
    pub(crate) fn start_in(command: &Command, rows: u16, columns: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        set_size(&master, rows, columns);
        let path = std::ffi::OsString::from_vec(ptsname(&master, Vec::new()).unwrap().into_bytes());
        let side = || OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mut typed = Command::new("setsid");
        typed.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args());
        typed.current_dir(command.get_current_dir().unwrap()).env("TERM", "xterm-256color").env_remove("NO_COLOR");
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
        Self { child, keyboard, output, screen: Vec::new(), read: 0, emulator: vt100::Parser::new(rows, columns, 0) }
    }

    /// Types text as a paste, the way a terminal marks one.
    pub(crate) fn pastes(&mut self, text: &str) {
        let keyboard = self.keyboard.try_clone().unwrap();
        let marked = format!("\u{1b}[200~{text}\u{1b}[201~");
        // A terminal takes only so much before the program reads it.
        let writer = std::thread::spawn(move || { &keyboard }.write_all(marked.as_bytes()).unwrap());
        while !writer.is_finished() {
            self.receive(Duration::from_millis(10));
        }
        writer.join().unwrap();
    }

    /// Changes the size of the terminal.
    pub(crate) fn resize(&mut self, rows: u16, columns: u16) {
        self.emulator.screen_mut().set_size(rows, columns);
        set_size(&self.keyboard, rows, columns);
    }

    /// Waits until the screen is as wanted. Returns it.
    pub(crate) fn shows(&mut self, is_wanted: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            let contents = self.emulator.screen().contents();
            if is_wanted(&contents) {
                self.read = self.screen.len();
                return contents;
            }
            assert!(began.elapsed() < PATIENCE, "the screen is\n{contents}");
            self.receive(Duration::from_millis(100));
        }
    }

    /// Takes what the command has written, if it does so in time. False if it has ended.
    fn receive(&mut self, limit: Duration) -> bool {
        match self.output.recv_timeout(limit) {
            Ok(bytes) => {
                self.emulator.process(&bytes);
                self.screen.extend(bytes);
                true
            }
            Err(error) => error == RecvTimeoutError::Timeout,
        }
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
            let is_alive = began.elapsed() < PATIENCE && self.receive(Duration::from_millis(100));
            assert!(is_alive, "{wanted:?} was to be shown, there is {rest:?}");
        }
    }

    /// Waits until the command has ended. Returns what the screen shows.
    pub(crate) fn rest(&mut self) -> String {
        let began = Instant::now();
        while self.receive(Duration::from_millis(100)) {
            assert!(began.elapsed() < PATIENCE, "the screen is\n{}", self.emulator.screen().contents());
        }
        self.emulator.screen().contents()
    }

    /// The exit code of a command that is about to end.
    pub(crate) fn code(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

fn set_size(terminal: &impl std::os::fd::AsFd, rows: u16, columns: u16) {
    tcsetwinsize(terminal, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
}
