package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// schemaVersion is the oldest schema that this code works with: the number of a
// migration. Newer ones stay compatible.
const schemaVersion = 7

// What [Store.Check] can find. Facts: *SchemaError and *RightsError.
var (
	// ErrSchema says that the schema is missing or older than this code.
	ErrSchema = errors.New("postgres: schema missing or too old")
	// ErrRights says that the role may not do what is needed.
	ErrRights = errors.New("postgres: rights missing")
	// ErrReadOnly says that the session cannot write: the server is a standby,
	// or default_transaction_read_only is on.
	ErrReadOnly = errors.New("postgres: the session is read-only")
)

// SchemaError is an [ErrSchema].
type SchemaError struct {
	// Have is the schema's version, 0 when there is none, and Want the oldest
	// that will do.
	Have, Want int
}

func (e *SchemaError) Error() string {
	is := fmt.Sprintf("has version %d, older than %d", e.Have, e.Want)
	if e.Have == 0 {
		is = "does not exist"
	}
	return "postgres: schema fencedstore " + is +
		": run migrate.Up of github.com/fenced-go/fenced/migrations/migrate," +
		" or goose -table fencedstore.goose_version up"
}

// Is makes errors.Is(e, ErrSchema) true.
func (e *SchemaError) Is(target error) bool { return target == ErrSchema }

// RightsError is an [ErrRights].
type RightsError struct {
	// Role is who is connected, quoted as SQL wants it.
	Role string
	// Missing are the rights to grant, such as "USAGE ON SCHEMA fencedstore".
	Missing []string
}

func (e *RightsError) Error() string {
	var b strings.Builder
	b.WriteString("postgres: rights missing: run")
	for _, right := range e.Missing {
		fmt.Fprintf(&b, " GRANT %s TO %s;", right, e.Role)
	}
	return b.String()
}

// Is makes errors.Is(e, ErrRights) true.
func (e *RightsError) Is(target error) bool { return target == ErrRights }

// needed are the functions that this code calls, but for evict: ending other
// sessions is not everybody's to do.
var needed = []string{"version", "claim", "guard", "guard_many", "holders"}

// checkSQL reads the catalogue, which needs no rights. It calls nothing of the
// schema, which may not be there.
const checkSQL = `
select format('%I', current_user),
       current_setting('transaction_read_only') = 'on',
       n.oid is not null,
       coalesce(has_schema_privilege(n.oid, 'usage'), false),
       array(select proname::text from pg_proc where pronamespace = n.oid),
       array(select proname::text from pg_proc where pronamespace = n.oid and has_function_privilege(oid, 'execute'))
  from (select to_regnamespace('fencedstore')::oid) n(oid)`

type catalogue struct {
	role                    string
	readOnly, schema, usage bool
	functions, executable   []string
}

// Check reports whether the database is ready: the schema is there and not older
// than this code ([ErrSchema]), the role has the rights it needs ([ErrRights]),
// and the session can write ([ErrReadOnly]). The texts name the command to run.
// It changes nothing; call it at start-up. Every other method fails by itself
// when something is missing, less clearly.
func (s *Store) Check(ctx context.Context) error {
	var c catalogue
	err := s.ask(ctx, checkSQL, &c.role, &c.readOnly, &c.schema, &c.usage, &c.functions, &c.executable)
	if err != nil {
		return fmt.Errorf("postgres: check: %w", err)
	}
	if err := c.verdict(); err != nil {
		return err
	}
	var version int
	if err := s.ask(ctx, "select fencedstore.version()", &version); err != nil {
		return fmt.Errorf("postgres: check: %w", err)
	}
	if version < schemaVersion {
		return &SchemaError{Have: version, Want: schemaVersion}
	}
	return nil
}

func (s *Store) ask(ctx context.Context, sql string, dest ...any) error {
	b := &pgx.Batch{}
	b.Queue(sql)
	br := s.db.SendBatch(ctx, b)
	err := br.QueryRow().Scan(dest...)
	if closeErr := br.Close(); err == nil {
		err = closeErr
	}
	return err
}

func (c *catalogue) verdict() error {
	if !c.schema || !slices.Contains(c.functions, "version") {
		return &SchemaError{Want: schemaVersion}
	}
	e := &RightsError{Role: c.role}
	if !c.usage {
		e.Missing = append(e.Missing, "USAGE ON SCHEMA fencedstore")
	}
	for _, name := range needed {
		if slices.Contains(c.functions, name) && !slices.Contains(c.executable, name) {
			e.Missing = append(e.Missing, "EXECUTE ON FUNCTION fencedstore."+name)
		}
	}
	if e.Missing != nil {
		return e
	}
	if c.readOnly {
		return ErrReadOnly
	}
	return nil
}
