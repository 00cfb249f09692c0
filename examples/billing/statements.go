package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/jackc/pgx/v5"

	"github.com/fenced-go/fenced/examples/billing/internal/ledger"
	"github.com/fenced-go/fenced/examples/billing/internal/nightly"
	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/s3compat"
)

// objectsPrefix begins every key of the example in the bucket.
const objectsPrefix = "billing-example"

// openObjects opens the store of statements at http://key:secret@host:port/bucket.
func openObjects(ctx context.Context, addr string) (*s3compat.Store, error) {
	u, err := url.Parse(addr)
	if err != nil {
		return nil, unusable("-s3: %w", withoutURL(err))
	}
	secret, _ := u.User.Password()
	bucket := strings.Trim(u.Path, "/")
	if u.Host == "" || secret == "" || bucket == "" {
		return nil, unusable("-s3: want http://accesskey:secretkey@host:port/bucket")
	}
	client := s3.New(s3.Options{
		BaseEndpoint: aws.String(u.Scheme + "://" + u.Host), Region: "us-east-1", UsePathStyle: true,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: u.User.Username(), SecretAccessKey: secret}, nil
		}),
	})
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	store, err := s3compat.Open(ctx, client, bucket, &s3compat.Options{Prefix: objectsPrefix})
	if err != nil {
		return nil, unusable("S3 at %s: %w", u.Host, err)
	}
	return store, nil
}

// withStatements is a ledger that writes a statement file beside each invoice.
type withStatements struct {
	nightly.Ledger
	store *s3compat.Store
}

// Bill writes the statement, then the invoice. Either store refuses a stale
// worker by itself. They are not one step: should the invoice fail, the account
// is still to be billed, and the next run writes the same statement again.
func (w withStatements) Bill(ctx context.Context, inv ledger.Invoice, balance int64) error {
	f, err := fencedstore.FromContext(ctx)
	if err != nil {
		return err
	}
	csv := &s3compat.PutOptions{ContentType: "text/csv"}
	if err := w.store.Put(ctx, f, statementKey(inv.AccountID), strings.NewReader(statement(inv)), csv); err != nil {
		return fmt.Errorf("statement: %w", err)
	}
	return w.Ledger.Bill(ctx, inv, balance)
}

func statementKey(account int64) string { return fmt.Sprintf("statements/%05d.csv", account) }

func statement(inv ledger.Invoice) string {
	return fmt.Sprintf("account,night,cents\n%d,%s,%d\n", inv.AccountID, inv.Night.Format(time.DateOnly), inv.Amount)
}

// auditStatements counts the invoices whose statement says something else, or
// is missing.
func auditStatements(ctx context.Context, conn *pgx.Conn, store *s3compat.Store) (wrong int, err error) {
	rows, _ := conn.Query(ctx, "SELECT account_id, night, amount FROM invoices")
	invoices, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ledger.Invoice])
	if err != nil {
		return 0, err
	}
	for _, inv := range invoices {
		text, err := readStatement(ctx, store, inv.AccountID)
		if err != nil {
			return 0, err
		}
		if text != statement(inv) {
			wrong++
		}
	}
	return wrong, nil
}

func readStatement(ctx context.Context, store *s3compat.Store, account int64) (string, error) {
	o, err := store.Get(ctx, nightly.Resource(night), statementKey(account), nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = o.Body.Close() }()
	b, err := io.ReadAll(o.Body)
	return string(b), err
}
