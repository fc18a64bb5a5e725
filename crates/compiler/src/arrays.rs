//! Arrays, where lists of values or rows can stand in their place, of which keys and indexes find
//! the rows. Clients give them in these places:
//!
//! ```text
//!   id = ANY ($1)                             id IN ('1', '2')
//!   id <> ALL ('{1,2}'::int[])                id NOT IN ('1'::int, '2'::int)
//!   price < ANY ($1::int[])                   price < ANY (VALUES ('1'::int), ('2'::int))
//!   FROM unnest($1::int[], $2::text[]) u      FROM (VALUES ('1'::int, 'a'::text), ...) u (...)
//!   SELECT unnest($1::int[])                  SELECT u.c1 AS unnest FROM (VALUES ...) u (c1)
//!   INSERT ... SELECT * FROM unnest(...)      INSERT ... VALUES ...
//! ```
//!
//! With parameters a statement is a [`Template`]: it is described with one value in place of each
//! array, and compiled anew for the values that a client binds.

mod finding;
mod site;

pub use sql::array::{Elements, elements};

use finding::Finder;
use site::{Of, Site, Source, What, Written, literal, words_of};
use sql::SqlError;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The tokens of a statement with arrays.
#[derive(Clone, PartialEq, Debug)]
pub struct Template {
    tokens: Vec<TokenWithSpan>,
    sites: Vec<Site>,
    /// Parameters that are arrays, from 0, ascending.
    pub params: Vec<usize>,
}

impl Template {
    /// # Errors
    /// A literal that is no array.
    pub fn find(tokens: &[TokenWithSpan]) -> Result<Option<Template>, SqlError> {
        let has_word = tokens.iter().any(|token| {
            matches!(&token.token, Token::Word(word) if word.quote_style.is_none()
                && ["any", "all", "some", "unnest"].iter().any(|known| word.value.eq_ignore_ascii_case(known)))
        });
        if !has_word {
            return Ok(None);
        }
        let sites = Finder { tokens, at: 0 }.sites()?;
        if sites.is_empty() {
            return Ok(None);
        }
        let of = |source: &Source| match source.of {
            Of::Param(number) => Some(number),
            _ => None,
        };
        let mut params: Vec<usize> = sites.iter().flat_map(|site| &site.sources).filter_map(of).collect();
        params.sort_unstable();
        params.dedup();
        Ok(Some(Template { tokens: tokens.to_vec(), sites, params }))
    }

    /// The statement with one value, the parameter itself, in place of each array.
    pub fn sample(&self) -> Vec<TokenWithSpan> {
        self.written(&|number| (Some(vec![vec![Token::Placeholder(format!("${}", number + 1))]]), None))
    }

    /// The statement with these arrays: for each parameter its elements, and the name of their
    /// type, for places that do not tell it.
    pub fn filled(&self, of: &dyn Fn(usize) -> (Option<Elements>, String)) -> Vec<TokenWithSpan> {
        self.written(&|number| {
            let (elements, ty) = of(number);
            (elements.map(|elements| elements.into_iter().map(literal).collect()), Some(words_of(&ty)))
        })
    }

    fn written(&self, of: &dyn Fn(usize) -> (Written, Option<Vec<Token>>)) -> Vec<TokenWithSpan> {
        let (mut out, mut from) = (Vec::with_capacity(self.tokens.len()), 0);
        for site in &self.sites {
            out.extend_from_slice(&self.tokens[from..site.at.start]);
            let arrays = site.sources.iter().map(|source| {
                let (written, known) = match &source.of {
                    Of::Param(number) => of(*number),
                    Of::Literal(elements) => (Some(elements.iter().cloned().map(literal).collect()), None),
                    Of::Expressions(all) => (Some(all.clone()), None),
                };
                // In a list the other operand tells the type of a parameter.
                let known = if matches!(site.what, What::List { .. }) { None } else { known };
                (written, source.ty.clone().or(known))
            });
            let tokens = site.what.written(&arrays.collect::<Vec<_>>());
            out.extend(tokens.into_iter().map(TokenWithSpan::wrap));
            from = site.at.end;
        }
        out.extend_from_slice(&self.tokens[from..]);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::is_space;
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::tokenizer::Tokenizer;

    fn tokens(text: &str) -> Vec<TokenWithSpan> {
        Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location().unwrap()
    }

    fn written(text: &str) -> Option<String> {
        let template = Template::find(&tokens(text)).unwrap()?;
        let some = Some(vec![Some("1".to_owned()), None]);
        let filled = template
            .filled(&|number| (if number == 8 { Some(Vec::new()) } else { some.clone() }, "int4".into()));
        let words: Vec<String> = filled
            .iter()
            .filter(|token| !is_space(&token.token))
            .map(|token| token.token.to_string())
            .collect();
        Some(words.join(" "))
    }

    #[test]
    fn lists_and_rows_stand_in_place_of_arrays() {
        for (text, expected) in [
            ("SELECT a = ANY ($1)", "SELECT a IN ( '1' , NULL )"),
            ("SELECT a <> ALL('{5}'::int[])", "SELECT a NOT IN ( '5' :: int )"),
            ("SELECT a = ANY($9)", "SELECT a IN ( NULL ) IS TRUE"),
            ("SELECT a <> ALL($9)", "SELECT a IN ( NULL ) IS NOT TRUE"),
            ("SELECT a < ANY ($1)", "SELECT a < ANY ( VALUES ( '1' :: int4 ) , ( NULL :: int4 ) )"),
            (
                "SELECT * FROM unnest($1::int[], '{a}'::text[]) u(x, y)",
                "SELECT * FROM ( VALUES ( '1' :: int , 'a' :: text ) , ( NULL :: int , NULL :: text ) ) AS \"u\" ( \"x\" , \"y\" )",
            ),
            (
                "SELECT i FROM t JOIN unnest($9::bigint[]) AS i ON i = t.a",
                "SELECT i FROM t JOIN ( SELECT NULL :: bigint WHERE FALSE ) AS \"i\" ( \"i\" ) ON i = t . a",
            ),
            (
                "SELECT unnest(ARRAY[1, $2])",
                "SELECT \"u\" . \"c1\" AS \"unnest\" FROM ( VALUES ( 1 ) , ( $2 ) ) AS \"u\" ( \"c1\" )",
            ),
            (
                "INSERT INTO t (a) SELECT * FROM UNNEST(($1)::bigint[]) RETURNING a",
                "INSERT INTO t ( a ) VALUES ( '1' :: bigint ) , ( NULL :: bigint ) RETURNING a",
            ),
        ] {
            assert_eq!(written(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "SELECT 1 UNION ALL (SELECT 2)",
            "SELECT a = ANY (SELECT b FROM u)",
            "SELECT unnest(a) FROM t",
            "SELECT unnest FROM t",
            "SELECT 'any'",
        ] {
            assert_eq!(written(text), None, "{text}");
        }
        let template = Template::find(&tokens("SELECT a = ANY($2), b = ANY ($1::int[])")).unwrap().unwrap();
        assert_eq!(template.params, [0, 1]);
    }
}
