//! The terminal between two prompts: what is typed is not shown, and waits for the next prompt.
//!
//! The kernel keeps typed bytes, but only 4,095 of a line that it edits itself. So it edits none: all bytes come as
//! they are typed. Ctrl-C stays a signal. The terminal is as it was before when this is dropped.

#[cfg(unix)]
pub(super) use unix::QuietTerminal;

#[cfg(unix)]
mod unix {
    use std::io::{self, IsTerminal, Write};

    use rustix::termios::{
        InputModes, LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr,
        tcsetattr,
    };

    use crate::terminal;

    /// Makes the terminal mark what is pasted, so that a pasted line end is no Enter.
    const MARK_PASTES: &[u8] = b"\x1b[?2004h";
    const MARK_NO_PASTES: &[u8] = b"\x1b[?2004l";

    /// A terminal that shows nothing that is typed.
    pub(in super::super) struct QuietTerminal {
        before: Termios,
    }

    impl QuietTerminal {
        /// Quiets the terminal of stdin. `None` if there is none, or if it is too simple for a line editor.
        pub(in super::super) fn begin() -> Option<Self> {
            if !io::stdin().is_terminal() || terminal::is_dumb() {
                return None;
            }
            let before = tcgetattr(io::stdin()).ok()?;
            let mut quiet = before.clone();
            quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ICANON);
            quiet.input_modes.remove(InputModes::ICRNL);
            // Ctrl-C cancels the answer, and keeps what was typed before it.
            quiet.local_modes.insert(LocalModes::NOFLSH);
            quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
            quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
            tcsetattr(io::stdin(), OptionalActions::Drain, &quiet).ok()?;
            Some(Self { before })
        }

        /// Keeps pastes marked. The line editor stops that at the end of each line.
        pub(in super::super) fn mark_pastes(&self) {
            send(MARK_PASTES);
        }

        /// Drops what was typed, so that it does not answer a question that was not read yet.
        pub(in super::super) fn drop_typed(&self) {
            let _ = tcflush(io::stdin(), QueueSelector::IFlush);
        }
    }

    impl Drop for QuietTerminal {
        fn drop(&mut self) {
            send(MARK_NO_PASTES);
            let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.before);
        }
    }

    fn send(code: &[u8]) {
        let mut stderr = io::stderr().lock();
        if stderr.is_terminal() {
            let _ = stderr.write_all(code).and_then(|()| stderr.flush());
        }
    }
}

/// Elsewhere the terminal stays as it is.
#[cfg(not(unix))]
pub(super) struct QuietTerminal;

#[cfg(not(unix))]
impl QuietTerminal {
    pub(super) fn begin() -> Option<Self> {
        None
    }

    pub(super) fn mark_pastes(&self) {}

    pub(super) fn drop_typed(&self) {}
}
