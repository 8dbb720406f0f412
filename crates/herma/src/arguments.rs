//! The command line of `herma`, and its help.
//!
//! The configuration reads the environment variables; the help only names them.

mod import;
mod memory;
mod sessions;
mod tools;

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use herma_config::{Overrides, parse_duration};
use herma_gateway::access::DEFAULT_TENANT;
use herma_model::{Alias, InvalidName, KeyScope, Rate, SessionKey};

use import::IMPORT_HELP;
pub(crate) use import::{HermesFlags, ImportCommand};
use memory::MEMORY_HELP;
pub(crate) use memory::{MemoryAddFlags, MemoryCommand, MemoryForgetFlags, MemoryListFlags};
pub(crate) use sessions::{
    BranchFlags, CompactFlags, DeleteFlags, ExportFlags, ExportFormat, ImportFlags, ListFlags, NamedMessage,
    RenameFlags, RewindFlags, SearchFlags, SessionName, SessionsCommand, ShowFlags, UndoFlags,
};
use tools::TOOLS_HELP;
pub(crate) use tools::{AudienceFlags, GrantsFlags, RevokeToolFlags, ToolsCallFlags, ToolsCommand, ToolsListFlags};

use crate::next_command;

const EXAMPLES: &str = "\
Examples:
  herma serve                            listen on 127.0.0.1:8642, answer with the offline model
  herma serve --upstream http://localhost:11434/v1 --model llama3.2
  herma chat                             talk in the terminal, no server needed
  herma chat 'What is Oslo known for?'   one answer
  herma acp                              serve an editor on stdin and stdout
  herma sessions list                    see what conversations there are
  herma sessions compact trip --dry-run  see what a summary would leave of a conversation
  herma memory list                      see what is remembered of session keys
  herma tools list                       see what tools models are offered
  herma import hermes ~/.hermes/state.db bring in the conversations of a Hermes database
  herma keys create                      make an API key
  herma doctor                           find out what is wrong

Settings come from flags, then HERMA_* variables, then herma.toml, then defaults; `herma config` shows them.";

/// A session gateway for AI agents: speaks the OpenAI API in front, calls any OpenAI-compatible model server behind,
/// and keeps every conversation in between.
#[derive(Parser)]
#[command(name = "herma", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Args)]
#[command(next_help_heading = "Where things are")]
pub(crate) struct Common {
    /// Directory of the database and the first key [variable: HERMA_DATA] [default: your data directory, such as
    /// ~/.local/share/herma]
    #[arg(long, global = true, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Configuration file [variable: HERMA_CONFIG] [default: herma.toml in the data directory, then here]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The database, as sqlite:PATH [variable: HERMA_STORE] [default: herma.db in the data directory]
    #[arg(long, global = true, value_name = "URL")]
    store: Option<String>,
    /// Log more, on stderr [variable: HERMA_LOG, for a filter of your own]
    #[arg(long, short, global = true)]
    verbose: bool,
}

/// What `--verbose` logs.
const VERBOSE: &str = "info,herma=debug";

impl Common {
    /// These flags as words of a command line.
    pub(crate) fn words(&self) -> Vec<String> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let flags = [("--data", path(&self.data)), ("--config", path(&self.config)), ("--store", self.store.clone())];
        let given = flags.into_iter().filter_map(|(flag, value)| Some((flag, value?)));
        given.flat_map(|(flag, value)| next_command::flag(flag, &value)).collect()
    }

    /// Adds these flags to those of a command.
    pub(crate) fn over(self, other: Overrides) -> Overrides {
        let log = self.verbose.then(|| VERBOSE.to_owned());
        Overrides { data: self.data, config_file: self.config, store: self.store, log, ..other }
    }
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Answer the OpenAI API on this machine
    #[command(after_help = SERVE_HELP)]
    Serve(ServeFlags),
    /// Talk in the terminal; needs no server
    #[command(after_help = CHAT_HELP)]
    Chat(ChatFlags),
    /// Serve an editor: the Agent Client Protocol on stdin and stdout
    #[command(after_help = ACP_HELP)]
    Acp,
    /// List, show, search, branch, change, compact, delete, export and import conversations; needs no server
    Sessions {
        #[command(subcommand)]
        command: SessionsCommand,
    },
    /// List, add and forget facts about session keys; needs no server
    #[command(after_help = MEMORY_HELP)]
    Memory {
        #[command(subcommand)]
        command: MemoryCommand,
    },
    /// List and call the tools that Herma runs, and take back what was allowed; needs no server
    #[command(after_help = TOOLS_HELP)]
    Tools {
        #[command(subcommand)]
        command: ToolsCommand,
    },
    /// Bring in conversations that were held with another program
    #[command(after_help = IMPORT_HELP)]
    Import {
        #[command(subcommand)]
        command: ImportCommand,
    },
    /// Make, list and revoke API keys
    Keys {
        #[command(subcommand)]
        command: KeysCommand,
    },
    /// List tenants, and delete one with everything that it has
    Tenants {
        #[command(subcommand)]
        command: TenantsCommand,
    },
    /// Write a copy of the whole store to a file, also while it is in use
    #[command(after_help = BACKUP_HELP)]
    Backup(BackupFlags),
    /// Replace the store with a backup
    #[command(after_help = RESTORE_HELP)]
    Restore(RestoreFlags),
    /// Show the settings you changed, as a herma.toml
    #[command(after_help = CONFIG_HELP)]
    Config(ConfigFlags),
    /// Check data directory, store, keys, port and model server, and say what to do
    #[command(after_help = "Exit code 1 if there is a problem; warnings alone are 0.")]
    Doctor(PrintFlags),
    /// Print completions for a shell
    #[command(after_help = COMPLETIONS_HELP)]
    Completions(CompletionsFlags),
    /// Print the manual page, or write one for every command
    #[command(after_help = MAN_HELP)]
    Man(ManFlags),
}

const BACKUP_HELP: &str = "\
Examples:
  herma backup ~/herma-2026-05-01.db
  herma restore ~/herma-2026-05-01.db --data /tmp/copy      look at it elsewhere

The copy has all conversations and the keys of all tenants, as they are at this moment. A running server goes on. \
Not in it: herma.toml, the plain text of the first key, and the history of the line editor.";

/// Flags of `backup`.
#[derive(Args)]
pub(crate) struct BackupFlags {
    /// File to write
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Write over a file that is there
    #[arg(long)]
    pub(crate) force: bool,
}

const RESTORE_HELP: &str = "\
Examples:
  herma restore ~/herma-2026-05-01.db
  herma restore ~/herma-2026-05-01.db --force      a store that is there is put aside

No process may use the store meanwhile. The file is checked first, and stays as it is.";

/// Flags of `restore`.
#[derive(Args)]
pub(crate) struct RestoreFlags {
    /// What `herma backup` wrote
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Put a store that is there aside
    #[arg(long)]
    pub(crate) force: bool,
}

const CONFIG_HELP: &str = "\
Examples:
  herma config                          what differs from the defaults
  herma config --all > herma.toml       begin a file: every setting, the defaults as comments

Secrets are left out.";

/// Flags of `config`.
#[derive(Args)]
pub(crate) struct ConfigFlags {
    /// Every setting; those that have their default are comments
    #[arg(long)]
    pub(crate) all: bool,
}

const COMPLETIONS_HELP: &str = "\
Examples:
  herma completions bash > ~/.local/share/bash-completion/completions/herma
  herma completions zsh > ~/.zfunc/_herma      with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
  herma completions fish > ~/.config/fish/completions/herma.fish";

/// Flags of `completions`.
#[derive(Args)]
pub(crate) struct CompletionsFlags {
    /// Shell that reads them
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

const MAN_HELP: &str = "\
Examples:
  herma man | man -l -                          read it
  herma man --output ~/.local/share/man/man1    write herma.1, herma-serve.1 and so on";

/// Flags of `man`.
#[derive(Args)]
pub(crate) struct ManFlags {
    /// Directory to write a page for every command to
    #[arg(long, short, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
}

const SERVE_HELP: &str = "\
Examples:
  herma serve
      Try everything without a model server: the built-in offline model answers.
  herma serve --upstream http://localhost:11434/v1 --model llama3.2
      Put Ollama behind it; vLLM, llama.cpp and others work the same way.
  HERMA_UPSTREAM_API_KEY=sk-... herma serve --upstream https://api.openai.com/v1 --model gpt-5
      Put a hosted model behind it; its key goes into a variable or herma.toml, not on the
      command line.

The first start makes an API key, prints it once and saves it as `api-key` in the data directory. `herma keys \
create` makes more; HERMA_API_KEY is accepted as well. SIGTERM and Ctrl-C let running turns finish; a second one \
ends at once.";

/// Flags of `serve`.
#[derive(Args)]
pub(crate) struct ServeFlags {
    /// Where to listen; port 0 picks a free one [variable: HERMA_LISTEN] [default: 127.0.0.1:8642]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Port to listen on, for this machine alone: the same as --listen 127.0.0.1:PORT
    #[arg(long, value_name = "PORT", conflicts_with = "listen")]
    port: Option<u16>,
    /// Model server, any that speaks the OpenAI API [variable: HERMA_UPSTREAM] [default: the offline model answers]
    #[arg(long, value_name = "BASE_URL")]
    upstream: Option<String>,
    /// Model for requests that name none [variable: HERMA_MODEL]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// How many tokens fit into the model [variable: HERMA_CONTEXT_WINDOW]
    #[arg(long, value_name = "TOKENS", value_parser = at_least_one::<u32>)]
    context_window: Option<u32>,
    /// Serve without API keys; on loopback only, and without session headers
    #[arg(long)]
    no_auth: bool,
}

impl ServeFlags {
    /// The flags as overrides of the configuration.
    pub(crate) fn into_overrides(self) -> Overrides {
        Overrides {
            listen: self.listen.or_else(|| self.port.map(|port| format!("127.0.0.1:{port}"))),
            upstream: self.upstream,
            model: self.model,
            context_window: self.context_window,
            no_auth: self.no_auth.then_some(true),
            ..Overrides::default()
        }
    }
}

const ACP_HELP: &str = "\
Editors start this themselves; see docs/ACP.md for Zed, JetBrains, Neovim and Emacs. It uses the same store and \
configuration as the other commands. Only messages of the protocol are written to stdout. The end of stdin \
interrupts running turns and ends the agent.";

const CHAT_HELP: &str = "\
Examples:
  herma chat                                  a new conversation
  herma chat --session sess_0190...           go on with an old one
  herma chat --session trip                   go on with `trip`, or begin it
  herma chat --continue                       go on with the last one
  herma chat 'What is Oslo known for?'        one answer
  git diff | herma chat 'Review this:'        one answer; what stdin has comes behind the words
  echo 'Hello' | herma chat --session trip    the same from a script: all of stdin is one message
  herma chat --json 'Hi' | jq .usage          the chat completion object, as over HTTP

At a terminal, /help lists the commands: /new (or /reset) begins a fresh conversation under the same session key, \
Ctrl-C cancels the running answer, Ctrl-D ends. The arrow keys and Ctrl-R find what was asked in earlier chats.

Of one answer, the exit code is 0 if there is one, 1 if not, 2 if the command line is wrong, and 130 after Ctrl-C. \
Tools that have to be allowed are asked about at a terminal only.";

/// Flags of `chat`.
#[derive(Args)]
pub(crate) struct ChatFlags {
    /// What to ask; it is answered once [default: what is typed, or all of stdin]
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Vec<String>,
    /// Conversation to go on with, by its short id, any id or name that leads to it; a new name begins one
    #[arg(long, value_name = "ID", value_parser = |text: &str| Alias::parse(text))]
    pub(crate) session: Option<Alias>,
    /// Go on with the conversation that was used last
    #[arg(long = "continue", conflicts_with = "session")]
    pub(crate) continue_last: bool,
    /// Your stable name for this channel or person; kept with the conversation
    #[arg(long, value_name = "KEY", value_parser = |text: &str| SessionKey::parse(text))]
    pub(crate) session_key: Option<SessionKey>,
    /// Model to ask [default: the configured one]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Print the answer as a chat completion object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a key; it alone is printed on stdout, and only this once
    #[command(after_help = CREATE_HELP)]
    Create(CreateFlags),
    /// List the keys of all tenants, without their secrets
    List(PrintFlags),
    /// Make a key invalid
    #[command(after_help = "Running servers notice within a second.")]
    Revoke(RevokeFlags),
}

#[derive(Subcommand)]
pub(crate) enum TenantsCommand {
    /// List the names of all tenants
    List(PrintFlags),
    /// Delete a tenant's keys and conversations, for good
    #[command(after_help = DELETE_TENANT_HELP)]
    Delete(DeleteTenantFlags),
}

const DELETE_TENANT_HELP: &str = "\
Examples:
  herma tenants delete web            asks first
  herma tenants delete web --yes

Its keys stop working within a second. The default tenant stays, empty, because HERMA_API_KEY stands for it. The \
receipt says when no file of the data directory has the text any more.";

/// Flags of `tenants delete`.
#[derive(Args)]
pub(crate) struct DeleteTenantFlags {
    /// The tenant
    #[arg(value_name = "NAME", value_parser = tenant)]
    pub(crate) name: String,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) print: PrintFlags,
}

const CREATE_HELP: &str = "\
Examples:
  herma keys create
  herma keys create --tenant web --session-keys 'agent:main:webui:*'
  herma keys create --read-only --expires 30d
  herma keys create --rate 60/min --max-turns 4
  export HERMA_KEY=$(herma keys create)

Nothing crosses tenants: each sees its own conversations only. A tenant is made by its first key. Each server \
process counts requests and turns by itself.";

/// Flags of `keys create`.
#[derive(Args)]
pub(crate) struct CreateFlags {
    /// Tenant the key stands for
    #[arg(long, value_name = "NAME", default_value = DEFAULT_TENANT, value_parser = tenant)]
    pub(crate) tenant: String,
    /// Session keys it may use: patterns with *, separated by commas [default: all]
    #[arg(long, value_name = "PATTERN", value_parser = patterns)]
    pub(crate) session_keys: Option<KeyScope>,
    /// Allow reading only: no turns, and no changes
    #[arg(long)]
    pub(crate) read_only: bool,
    /// How long the key is valid, such as 12h or 30d [default: until it is revoked]
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    pub(crate) expires: Option<Duration>,
    /// Most requests in a period, such as 5/s, 60/min, 1000/h or 10000/d [default: no limit]
    #[arg(long, value_name = "REQUESTS/PERIOD")]
    pub(crate) rate: Option<Rate>,
    /// Most turns at the same time; delegated turns do not count [default: no limit]
    #[arg(long, value_name = "TURNS", value_parser = at_least_one::<u32>)]
    pub(crate) max_turns: Option<u32>,
}

/// Flags of `keys revoke`.
#[derive(Args)]
pub(crate) struct RevokeFlags {
    /// Key, by its short id, its id, or as much of its id's beginning as is unique
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

/// Flags of commands that print a table.
#[derive(Args)]
pub(crate) struct PrintFlags {
    /// Print JSON in place of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// A whole number that is not zero.
fn at_least_one<T: FromStr + From<u8> + PartialOrd>(text: &str) -> Result<T, &'static str> {
    let number = text.parse().ok().filter(|number| *number >= T::from(1));
    number.ok_or("must be a whole number of at least 1")
}

fn tenant(text: &str) -> Result<String, InvalidName> {
    Alias::parse(text).map(|name| name.to_string())
}

/// The time until a key expires.
fn lifetime(text: &str) -> Result<Duration, &'static str> {
    parse_duration(text)
        .filter(|time| !time.is_zero())
        .ok_or("must be a whole number above zero and a unit, such as '90s', '15m', '12h' or '30d'")
}

/// Refuses an empty pattern, because it would mean "all".
fn patterns(text: &str) -> Result<KeyScope, &'static str> {
    match KeyScope::parse(Some(text)) {
        KeyScope::All | KeyScope::Only(_) => Err("must not be empty; leave the flag out to allow every session key"),
        scope @ KeyScope::Patterns(_) => Ok(scope),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn sessions_and_compactions_are_named_by_any_text_and_other_arguments_are_checked() {
        let id = format!("cmp_{}", "0".repeat(32));
        for (line, understood) in [
            ("compact trip", true),
            ("compact trip --dry-run --mode in_place --model m --tenant web --json", true),
            ("compact trip --mode off", false),
            ("compact ../x", false),
            ("compact", false),
            ("list --kind main --archived --limit 5 --json", true),
            ("list --all", true),
            ("list --all --limit 5", true),
            ("list --limit 0", false),
            ("list --kind king", false),
            ("show trip --messages 3", true),
            ("tree trip --tenant web", true),
            ("search two words", true),
            ("search", false),
            ("branch trip --id other --title T", true),
            ("branch trip --at msg_1", false),
            ("rename trip T", true),
            ("rename trip", false),
            ("end trip", true),
            ("reopen trip", true),
            ("delete trip --children delete --yes", true),
            ("delete trip --children eat", false),
            ("compactions conv_1 --json", true),
            ("undo trip 0451e1f5", true),
            ("undo trip 0451e1f5 cmp_1", false),
            ("undo trip", true),
            (&format!("undo trip {id}"), true),
        ] {
            let words = ["herma", "sessions"].into_iter().chain(line.split(' '));
            assert_eq!(Arguments::try_parse_from(words).is_ok(), understood, "{line}");
        }
    }
}
