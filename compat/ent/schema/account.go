// Package schema is what ent generates code from.
package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
)

// Account has a balance.
type Account struct{ ent.Schema }

// Fields implements ent.Interface.
func (Account) Fields() []ent.Field {
	return []ent.Field{field.Int64("id"), field.Int64("balance")}
}

// Annotations implements ent.Interface.
func (Account) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Annotation{Table: "account"}}
}
