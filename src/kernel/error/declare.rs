//! Macros that declare each error once: its variant with its fields, SQLSTATE, message, DETAIL and HINT.
//!
//! rustfmt does not format their arguments. The message stands on the first line where it fits into 140 columns. DETAIL
//! and HINT have lines of their own. A variant needs a doc comment only where it adds something to its texts.

/// Builds a [Text](super::text::Text): `text!(SQLSTATE: message, detail DETAIL, hint HINT)`. DETAIL and HINT are optional.
///
/// The SQLSTATE is a name of PostgreSQL (`ERRCODE_...`), or `{ expression }`. Each text is one of:
/// - `"literal"`: a format string that names variables and constants in braces;
/// - `("literal", arguments...)`: a format string and its arguments;
/// - `{ expression }`: a `String`; DETAIL and HINT take an `Option<String>`, too. A message takes no expression, because
///   `tests/scripts/repository/documents` reads the literals and compares them with `docs/error-messages.md`.
macro_rules! text {
    ($code:tt: $message:tt $(, detail $detail:tt)? $(, hint $hint:tt)? $(,)?) => {
        $crate::kernel::error::text::Text {
            code: $crate::kernel::error::declare::text!(@code $code),
            message: $crate::kernel::error::declare::text!(@message $message),
            detail: $crate::kernel::error::declare::text!(@optional $($detail)?),
            hint: $crate::kernel::error::declare::text!(@optional $($hint)?),
            completion: None,
        }
    };
    (@code $code:ident) => { ::pgrx::PgSqlErrorCode::$code };
    (@code { $code:expr }) => { $code };
    (@message $literal:literal) => { format!($literal) };
    (@message ($($arguments:tt)+)) => { format!($($arguments)+) };
    (@optional) => { None };
    (@optional { $($expression:tt)+ }) => { Option::<String>::from({ $($expression)+ }) };
    (@optional $text:tt) => { Some($crate::kernel::error::declare::text!(@message $text)) };
}

/// Declares an enum of errors, and converts it to a [Text](super::text::Text).
///
/// A variant ends with a semicolon, and has one of two forms:
/// - `Name { field: Type } => text;`, where `text` is what [text!] takes, and can name the fields;
/// - `Name(Type);` for an error that has a conversion to `Text` of its own. `From<Type>` makes this variant of it.
macro_rules! errors {
    (
        $(#[$about:meta])*
        pub enum $errors:ident {
            $(
                $(#[$doc:meta])*
                $name:ident
                $(($inner:ty))?
                $(
                    $({ $($field:ident: $type:ty),+ })?
                    => $code:tt: $message:tt $(, detail $detail:tt)? $(, hint $hint:tt)?
                )?;
            )+
        }
    ) => {
        $(#[$about])*
        #[derive(Debug)]
        pub enum $errors {
            $(
                $(#[$doc])*
                $name $(($inner))? $($({ $($field: $type),+ })?)?,
            )+
        }

        impl From<$errors> for $crate::kernel::error::text::Text {
            fn from(error: $errors) -> Self {
                match error {
                    $(
                        $($errors::$name(inner) => <$inner>::into(inner),)?
                        $(
                            $errors::$name $({ $($field),+ })? => {
                                $crate::kernel::error::declare::text!($code: $message $(, detail $detail)? $(, hint $hint)?)
                            }
                        )?
                    )+
                }
            }
        }

        $($(
            impl From<$inner> for $errors {
                fn from(inner: $inner) -> Self {
                    $errors::$name(inner)
                }
            }
        )?)+
    };
}

pub(crate) use {errors, text};
