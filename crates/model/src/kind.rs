//! What a session is and where it comes from. Its producer sets these facts, and they are stored as columns. They are
//! never guessed.

macro_rules! stored_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ::serde::Serialize, ::serde::Deserialize)]
        pub enum $name {
            $($(#[$vdoc])* #[serde(rename = $text)] $variant),+
        }

        impl $name {
            /// Every value, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The form on the wire and in the store.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// Reads the form on the wire and in the store.
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}
pub(crate) use stored_enum;

stored_enum!(
    /// What a session is.
    SessionKind {
        /// A person's own session.
        Main = "main",
        /// Delegated work, and helpers that tools make.
        Auxiliary = "auxiliary",
        /// Scheduled jobs and declared background runs.
        Background = "background",
        /// A fork, or a turn that continues from a point that is not the end.
        Branch = "branch",
        /// The session that a splitting compaction started.
        Continuation = "continuation",
    }
);

impl SessionKind {
    /// How a new session of this kind is related to the parent that its producer declares, if it declares one.
    ///
    /// Auxiliary and background sessions may have a parent. A branch needs one, and a main session must have none. A
    /// continuation cannot be declared: only a splitting compaction makes one.
    pub const fn declare(self, has_parent: bool) -> Result<Option<ParentRelation>, InvalidDeclaration> {
        match (self, has_parent) {
            (Self::Main | Self::Auxiliary | Self::Background, false) => Ok(None),
            (Self::Auxiliary, true) => Ok(Some(ParentRelation::Delegate)),
            (Self::Background, true) => Ok(Some(ParentRelation::Background)),
            (Self::Branch, true) => Ok(Some(ParentRelation::Branch)),
            (Self::Main, true) => Err(InvalidDeclaration::ParentOfMain),
            (Self::Branch, false) => Err(InvalidDeclaration::BranchOfNothing),
            (Self::Continuation, _) => Err(InvalidDeclaration::Continuation),
        }
    }

    /// Whether a conversation whose first session has this kind is meant for people.
    pub const fn is_user_facing(self) -> bool {
        matches!(self, Self::Main | Self::Branch)
    }
}

/// Why a session cannot be declared with this kind and parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDeclaration {
    /// Only compactions make continuations.
    #[error("'continuation' cannot be declared: only a compaction makes one")]
    Continuation,
    /// A branch without a parent.
    #[error("a branch needs a parent")]
    BranchOfNothing,
    /// A main session with a parent.
    #[error("a main session has no parent: declare it as 'auxiliary', 'background' or 'branch'")]
    ParentOfMain,
}

stored_enum!(
    /// How a session is related to its parent.
    ParentRelation {
        /// The parent was compacted into this session.
        Continuation = "continuation",
        /// This session branched off from its parent at some point.
        Branch = "branch",
        /// The parent delegated work to this session.
        Delegate = "delegate",
        /// The parent started this session in the background.
        Background = "background",
        /// An import recorded the relation, and nothing more is known.
        Import = "import",
    }
);

stored_enum!(
    /// Who created a session.
    CreatorKind {
        /// A person, through a front end that says so.
        User = "user",
        /// An HTTP client.
        Api = "api",
        /// An editor.
        Acp = "acp",
        /// The terminal.
        Cli = "cli",
        /// A splitting compaction.
        Compression = "compression",
        /// A delegating tool.
        DelegateTask = "delegate_task",
        /// A branch.
        Branch = "branch",
        /// A scheduled job.
        Schedule = "schedule",
        /// An import.
        Import = "import",
    }
);

stored_enum!(
    /// Why a session ended.
    EndReason {
        /// A splitting compaction moved the head to a new session.
        Compression = "compression",
        /// A client ended the conversation.
        Ended = "ended",
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_forms_read_back() {
        for kind in SessionKind::ALL {
            assert_eq!(SessionKind::parse(kind.as_str()), Some(*kind));
        }
        for creator in CreatorKind::ALL {
            assert_eq!(CreatorKind::parse(creator.as_str()), Some(*creator));
        }
        assert_eq!(SessionKind::parse("Main"), None);
    }

    #[test]
    fn a_declared_kind_says_how_it_is_related() {
        for (kind, alone, with_parent) in [
            (SessionKind::Main, Ok(None), Err(InvalidDeclaration::ParentOfMain)),
            (SessionKind::Auxiliary, Ok(None), Ok(Some(ParentRelation::Delegate))),
            (SessionKind::Background, Ok(None), Ok(Some(ParentRelation::Background))),
            (SessionKind::Branch, Err(InvalidDeclaration::BranchOfNothing), Ok(Some(ParentRelation::Branch))),
            (SessionKind::Continuation, Err(InvalidDeclaration::Continuation), Err(InvalidDeclaration::Continuation)),
        ] {
            assert_eq!((kind.declare(false), kind.declare(true)), (alone, with_parent), "{kind:?}");
        }
    }

    #[test]
    fn helpers_are_not_user_facing() {
        assert!(SessionKind::Main.is_user_facing() && SessionKind::Branch.is_user_facing());
        assert!(!SessionKind::Auxiliary.is_user_facing() && !SessionKind::Background.is_user_facing());
    }
}
