//! Names that look alike (UTS #39).

/// The choice of a bucket type for names that look like another name of the type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Confusables {
    /// Accepts such a name.
    #[default]
    Allow,
    /// Refuses such a name.
    Reject,
}

impl Confusables {
    pub const ALL: [Confusables; 2] = [Confusables::Allow, Confusables::Reject];

    /// Returns the choice with this SQL name.
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

/// Returns the skeleton of UTS #39, which texts that look alike have in common. It is not fit for display. It can be
/// eighteen times as long as the text.
pub fn skeleton(text: &str) -> String {
    unicode_security::skeleton(text).collect()
}
