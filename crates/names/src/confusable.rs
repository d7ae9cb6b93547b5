//! Names that look alike (UTS #39).

/// What happens to a name that looks like another one of its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Confusables {
    /// Nothing.
    #[default]
    Allow,
    /// It is refused.
    Reject,
}

impl Confusables {
    pub const ALL: [Confusables; 2] = [Confusables::Allow, Confusables::Reject];

    /// The choice of that name, as SQL spells it.
    pub fn parse(name: &str) -> Option<Self> {
        Confusables::ALL.into_iter().find(|choice| choice.name() == name)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Confusables::Allow => "allow",
            Confusables::Reject => "reject",
        }
    }
}

/// UTS #39's skeleton: the same for texts that look alike. Not fit to be shown, and up to eighteen times as long.
pub fn skeleton(text: &str) -> String {
    unicode_security::skeleton(text).collect()
}
