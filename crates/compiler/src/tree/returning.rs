//! `RETURNING` of a change that other relations take part in. Their values come with the row that
//! the tree gives for the change, as its last columns.
//!
//! ```text
//!   UPDATE t SET ... FROM o WHERE t.id = o.id RETURNING t.a, o.b || 'x'
//!     tree:  SELECT t.id, ..., "o"."b" FROM t, o WHERE t.id = o.id
//!     each:  UPDATE t SET ... WHERE t.id = $1 RETURNING t.a, $3 || 'x'
//! ```

use super::State;
use super::before::Before;
use super::from::From;
use crate::Stop;
use crate::coerce::Params;
use crate::error::no_column;
use crate::expressions::Compiler;
use crate::items::name_of;
use crate::names::{Relation, folded, parts};
use crate::reading::is_space;
use sql::catalog::{Catalog, Table};
use sql::{SqlError, SqlState};
use sqlparser::ast::{self, SelectItem, SelectItemQualifiedWildcardKind};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Token, Tokenizer, Word};

/// The clause of the change, and what the query gives for it besides.
#[derive(Default)]
pub struct Returning {
    pub clause: String,
    /// Columns of the other relations, as the query has them.
    pub values: Vec<String>,
}

pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The clause of a change of `table` under the name `alias`. The first of the values will be the
/// parameter `first`.
///
/// # Errors
/// Unknown and ambiguous names.
pub fn returning(
    catalog: &Catalog,
    items: Option<&Vec<SelectItem>>,
    (others, before): (&[ast::TableWithJoins], &Before<'_>),
    target: (&Table, &str),
    first: usize,
) -> Result<Returning, Stop> {
    let Some(items) = items else { return Ok(Returning::default()) };
    let mut compiler = Compiler::new(catalog, Params::new(usize::from(u16::MAX), &[]));
    compiler.tree = Some(State::default());
    before.reach(&mut compiler)?;
    let mut from = From::default();
    from.clause(&mut compiler, others)?;
    let mut writing = Writing { target, relations: &from.scope.relations, first, values: Vec::new() };
    let mut listed = Vec::with_capacity(items.len());
    for item in items {
        match item {
            SelectItem::Wildcard(_) if !from.scope.merged.is_empty() => {
                return Err(Stop::General("RETURNING * over a join with USING"));
            }
            SelectItem::Wildcard(_) => {
                listed.push(format!("{}.*", quoted(target.1)));
                from.scope.relations.iter().for_each(|relation| writing.whole(relation, &mut listed));
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                let name = parts(name).pop().unwrap_or_default();
                match from.scope.relations.iter().find(|relation| relation.name == name) {
                    Some(relation) => writing.whole(relation, &mut listed),
                    None => listed.push(format!("{}.*", quoted(&name))),
                }
            }
            SelectItem::UnnamedExpr(expr) => {
                let text = writing.expression(&expr.to_string())?;
                listed.push(format!("{text} AS {}", quoted(&name_of(expr))));
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                let text = writing.expression(&expr.to_string())?;
                listed.push(format!("{text} AS {}", quoted(&folded(alias))));
            }
            _ => return Err(Stop::General("an item of this kind")),
        }
    }
    Ok(Returning { clause: format!(" RETURNING {}", listed.join(", ")), values: writing.values })
}

struct Writing<'w> {
    target: (&'w Table, &'w str),
    relations: &'w [Relation],
    first: usize,
    values: Vec<String>,
}

impl Writing<'_> {
    /// The parameter that has the value of a column of another relation.
    fn param(&mut self, relation: &str, column: &str) -> String {
        let value = format!("{}.{}", quoted(relation), quoted(column));
        let at = self.values.iter().position(|known| *known == value).unwrap_or_else(|| {
            self.values.push(value);
            self.values.len() - 1
        });
        format!("${}", self.first + at)
    }

    fn whole(&mut self, relation: &Relation, listed: &mut Vec<String>) {
        for column in &relation.columns {
            let param = self.param(&relation.name, &column.name);
            listed.push(format!("{param} AS {}", quoted(&column.name)));
        }
    }

    /// An expression with parameters in place of the columns of other relations.
    fn expression(&mut self, text: &str) -> Result<String, Stop> {
        let dialect = PostgreSqlDialect {};
        let tokens = Tokenizer::new(&dialect, text).with_unescape(false).tokenize();
        let tokens = tokens.map_err(|error| crate::error::syntax(error.message))?;
        let has_query = |token: &Token| {
            matches!(token, Token::Word(word) if word.quote_style.is_none()
                && word.value.eq_ignore_ascii_case("select"))
        };
        if !self.relations.is_empty() && tokens.iter().any(has_query) {
            return Err(Stop::General("a sub-query in RETURNING, where other tables take part"));
        }
        let (mut out, mut at) = (String::with_capacity(text.len()), 0);
        let mut before = None;
        while let Some(token) = tokens.get(at) {
            let taken = match token {
                Token::Word(word) => self.column(word, &tokens[at + 1..], before)?,
                _ => None,
            };
            match taken {
                Some((param, count)) => {
                    out.push_str(&param);
                    at += count;
                }
                None => {
                    out.push_str(&token.to_string());
                    at += 1;
                }
            }
            if !is_space(token) {
                before = Some(token);
            }
        }
        Ok(out)
    }

    /// The parameter for a column that begins with a word, and the number of its tokens; `None` if
    /// it is none, or one of the table that is changed.
    fn column(
        &mut self,
        word: &Word,
        rest: &[Token],
        before: Option<&Token>,
    ) -> Result<Option<(String, usize)>, SqlError> {
        if !may_begin(before) {
            return Ok(None);
        }
        let name = name_of_word(word);
        if let [Token::Period, Token::Word(column), ..] = rest {
            let column = name_of_word(column);
            let Some(relation) = self.relations.iter().find(|relation| relation.name == name) else {
                return Ok(None);
            };
            if !relation.columns.iter().any(|known| known.name == column) {
                return Err(no_column(&format!("{name}.{column}")));
            }
            return Ok(Some((self.param(&name, &column), 3)));
        }
        if rest.iter().find(|token| !is_space(token)).is_some_and(|next| *next == Token::LParen) {
            return Ok(None);
        }
        let is_column = |relation: &&Relation| relation.columns.iter().any(|known| known.name == name);
        let mut found = self.relations.iter().filter(is_column).map(|relation| relation.name.clone());
        let Some(relation) = found.next() else { return Ok(None) };
        if found.next().is_some() || self.target.0.column(&name).is_some() {
            let message = format!("column reference \"{name}\" is ambiguous");
            return Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message));
        }
        Ok(Some((self.param(&relation, &name), 1)))
    }
}

fn name_of_word(word: &Word) -> String {
    if word.quote_style.is_some() { word.value.clone() } else { word.value.to_lowercase() }
}

/// Whether a column may stand behind a token: not a name of a type, and no alias.
fn may_begin(before: Option<&Token>) -> bool {
    const WORDS: [&str; 14] = [
        "AND", "BETWEEN", "CASE", "DISTINCT", "ELSE", "FROM", "ILIKE", "IN", "IS", "LIKE", "NOT", "OR",
        "THEN", "WHEN",
    ];
    match before {
        None => true,
        Some(Token::Word(word)) => {
            word.quote_style.is_none() && WORDS.iter().any(|known| word.value.eq_ignore_ascii_case(known))
        }
        Some(Token::Period | Token::DoubleColon | Token::RParen | Token::RBracket) => false,
        Some(Token::Number(..) | Token::SingleQuotedString(_) | Token::Placeholder(_)) => false,
        Some(_) => true,
    }
}
