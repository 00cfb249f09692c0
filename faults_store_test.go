package fenced_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
	"github.com/fenced-go/fenced/fencedstore/s3compat"
	"github.com/fenced-go/fenced/internal/faults"
	"github.com/fenced-go/fenced/internal/testenv"
)

// postgresRegister keeps values in a table, and beside it a journal of what was
// accepted: the row lock of the value gives it its order.
type postgresRegister struct {
	*postgres.Store
}

const (
	registerTables = `CREATE TABLE register (resource text PRIMARY KEY, value text NOT NULL, version bigint NOT NULL);
CREATE TABLE journal (resource text, version bigint, value text UNIQUE, saw text, fence_id bigint, holder text,
	PRIMARY KEY (resource, version))`
	registerRead  = "SELECT value FROM register WHERE resource = $1"
	registerWrite = `WITH next AS (UPDATE register SET value = $2, version = version + 1 WHERE resource = $1 RETURNING version)
INSERT INTO journal SELECT $1, version, $2, $3, $4, $5 FROM next`
)

func newPostgresRegister(ctx context.Context, url string) (register, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 6
	config.ConnConfig.ConnectTimeout = time.Second
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s, err := postgres.New(pool, &postgres.Options{LockTimeout: 2 * time.Second})
	return postgresRegister{s}, err
}

func (p postgresRegister) read(ctx context.Context, f fencedstore.Fence) (value string, err error) {
	if rand.IntN(2) == 0 {
		return value, p.InTx(ctx, f, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, registerRead, f.Resource).Scan(&value)
		})
	}
	err = p.Repo().QueryRow(fencedstore.NewContext(ctx, f), registerRead, f.Resource).Scan(&value)
	return value, err
}

// inTx is for how long a transaction is left open now and then: a claim that
// comes meanwhile has to wait.
const inTx = faultTTL / 10

// write takes any of the ways to write.
func (p postgresRegister) write(ctx context.Context, f fencedstore.Fence, saw, value string, repeated bool) (err error) {
	args := []any{f.Resource, value, saw, f.ID, digest(f.Holder)}
	switch rand.IntN(3) {
	case 0:
		_, err = p.Exec(ctx, f, registerWrite, args...)
	case 1:
		b := &pgx.Batch{}
		b.Queue(registerRead, f.Resource)
		b.Queue(registerWrite, args...)
		err = p.SendBatch(ctx, f, b)
	default:
		err = p.InTx(ctx, f, func(tx pgx.Tx) error {
			rest(ctx, rand.N(inTx))
			_, err := tx.Exec(ctx, registerWrite, args...)
			rest(ctx, rand.N(inTx))
			return err
		})
	}
	if repeated && isDuplicate(err) {
		return nil // an earlier attempt has done it
	}
	return err
}

// journal is the store's own account.
func journal(t *testing.T, p *testenv.Postgres, db string) faults.Account {
	t.Helper()
	account := faults.Account{}
	for _, row := range p.Do(t, db, "SELECT resource, value, saw, fence_id, holder, version FROM journal ORDER BY resource, version") {
		fence, err := strconv.ParseInt(row[3], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		list := append(account[row[0]], faults.Accepted{Value: row[1], Saw: row[2], Fence: fence, Holder: row[4]})
		account[row[0]] = list
		if strconv.Itoa(len(list)) != row[5] {
			t.Errorf("the journal of %s goes from version %d to %s: an accepted write is gone", row[0], len(list)-1, row[5])
		}
	}
	return account
}

// s3Setup is a bucket.
type s3Setup struct{ URL, Bucket, AccessKey, SecretKey string }

func (s s3Setup) client() *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: sdk.String(s.URL),
		Region:       "us-east-1",
		UsePathStyle: true,
		Credentials: sdk.CredentialsProviderFunc(func(context.Context) (sdk.Credentials, error) {
			return sdk.Credentials{AccessKeyID: s.AccessKey, SecretAccessKey: s.SecretKey}, nil
		}),
	})
}

// s3Register keeps values in objects. Nobody but the register's last value tells
// what was accepted: see faults.Chain.
type s3Register struct {
	*s3compat.Store
}

const s3Key = "value"

// newS3Register has every third value or so in an object of its own.
func newS3Register(ctx context.Context, setup s3Setup) (register, error) {
	s, err := s3compat.Open(ctx, setup.client(), setup.Bucket, &s3compat.Options{
		InlineLimit: s3Inline, AttemptTimeout: time.Second, SettleTimeout: 3 * time.Second,
	})
	return s3Register{s}, err
}

// s3Inline is what the register holds of a value; longer ones become objects.
const s3Inline = 256

func (s s3Register) read(ctx context.Context, f fencedstore.Fence) (string, error) {
	return s3Value(ctx, s.Store, f.Resource)
}

// s3Value is what is stored without the blanks that made it long.
func s3Value(ctx context.Context, s *s3compat.Store, resource string) (string, error) {
	o, err := s.Get(ctx, resource, s3Key, nil)
	if errors.Is(err, fencedstore.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(o.Body)
	return strings.TrimSpace(string(b)), errors.Join(err, o.Body.Close())
}

func (s s3Register) write(ctx context.Context, f fencedstore.Fence, _, value string, _ bool) error {
	if rand.IntN(3) == 0 {
		value += strings.Repeat(" ", s3Inline)
	}
	return s.Put(ctx, f, s3Key, strings.NewReader(value), nil)
}

// chains is the account of a store that keeps none.
func chains(t *testing.T, setup s3Setup, ops []*faults.Op, resources []string) faults.Account {
	t.Helper()
	s, err := s3compat.Open(t.Context(), setup.client(), setup.Bucket, nil)
	if err != nil {
		t.Fatal(err)
	}
	account := faults.Account{}
	for _, resource := range resources {
		last, err := s3Value(t.Context(), s, resource)
		if err != nil {
			t.Fatal(err)
		}
		if account[resource], err = faults.Chain(ops, resource, last); err != nil {
			t.Error(err)
		}
	}
	return account
}

// atAddr is a database URL with another address.
func atAddr(t *testing.T, database, addr string) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = addr
	return u.String()
}
