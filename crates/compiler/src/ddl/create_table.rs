use super::Changing;
use sql::SqlError;
impl Changing {
    pub fn create_table(&mut self, _create: &sqlparser::ast::CreateTable) -> Result<&'static str, SqlError> {
        Ok("CREATE TABLE")
    }
}
