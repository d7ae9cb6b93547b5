//! The traits that pgrx requires of a Rust type for an SQL type.

/// Declares the SQL type of a Rust type. It must be the type that the conversion from and to datums expects.
macro_rules! type_in_sql {
    ($type:ty, $sql:literal) => {
        // SAFETY: guaranteed by the use of the macro.
        unsafe impl pgrx::pgrx_sql_entity_graph::metadata::SqlTranslatable for $type {
            const TYPE_IDENT: &'static str = pgrx::pgrx_resolved_type!($type);
            const TYPE_ORIGIN: pgrx::pgrx_sql_entity_graph::metadata::TypeOrigin =
                pgrx::pgrx_sql_entity_graph::metadata::TypeOrigin::External;
            const ARGUMENT_SQL: Result<
                pgrx::pgrx_sql_entity_graph::metadata::SqlMappingRef,
                pgrx::pgrx_sql_entity_graph::metadata::ArgumentError,
            > = Ok(pgrx::pgrx_sql_entity_graph::metadata::SqlMappingRef::literal($sql));
            const RETURN_SQL: Result<
                pgrx::pgrx_sql_entity_graph::metadata::ReturnsRef,
                pgrx::pgrx_sql_entity_graph::metadata::ReturnsError,
            > = Ok(pgrx::pgrx_sql_entity_graph::metadata::ReturnsRef::One(
                pgrx::pgrx_sql_entity_graph::metadata::SqlMappingRef::literal($sql),
            ));
        }
    };
}

/// Like `type_in_sql`, for a type that functions take as an argument. The argument is converted by its `FromDatum`.
macro_rules! argument_of_type {
    ($type:ty, $sql:literal) => {
        $crate::sql_type::type_in_sql!($type, $sql);

        // SAFETY: the argument is unboxed by FromDatum, which expects the SQL type named above.
        unsafe impl<'fcx> pgrx::callconv::ArgAbi<'fcx> for $type {
            unsafe fn unbox_arg_unchecked(arg: pgrx::callconv::Arg<'_, 'fcx>) -> Self {
                let index = arg.index();
                // SAFETY: the caller promises an argument of this type; pgrx wraps it in Option where NULL is possible.
                unsafe {
                    arg.unbox_arg_using_from_datum().unwrap_or_else(|| panic!("argument {index} must not be null"))
                }
            }
        }
    };
}

pub(super) use {argument_of_type, type_in_sql};
