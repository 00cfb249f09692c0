package ledger

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/memstore"
)

// ErrBilled says that an account has an invoice for the night already.
var ErrBilled = errors.New("ledger: billed already")

// opening is what every account owes before the night, in cents.
const opening = 500

// Memory is a ledger in this process. It is safe for concurrent use.
type Memory struct {
	values
	once bool // an account has at most one invoice for a night
}

// NewMemory returns the ledger of a guarded store, as [NewPostgres] does.
func NewMemory(store *memstore.Store) *Memory { return &Memory{guarded{store}, true} }

// NewUnguardedMemory returns an empty ledger that checks no fence, as
// [NewUnguarded] does, and has no unique constraint either.
func NewUnguardedMemory() *Memory { return &Memory{&plain{m: map[string][]byte{}}, false} }

// OpenAccounts adds the accounts 1 to count.
func (m *Memory) OpenAccounts(ctx context.Context, count int64) error {
	return m.inTx(ctx, func(t tx) error {
		for id := int64(1); id <= count; id++ {
			if err := write(t, accountKey(id), Account{ID: id, Usage: 10 + id, Balance: opening}); err != nil {
				return err
			}
		}
		return nil
	})
}

// Unbilled lists the accounts that have no invoice for night.
func (m *Memory) Unbilled(ctx context.Context, night time.Time) ([]int64, error) {
	billed := map[int64]bool{}
	err := each(ctx, m, invoicePrefix, func(inv Invoice) {
		billed[inv.AccountID] = billed[inv.AccountID] || inv.Night.Equal(night)
	})
	if err != nil {
		return nil, err
	}
	var ids []int64
	err = each(ctx, m, accountPrefix, func(a Account) {
		if !billed[a.ID] {
			ids = append(ids, a.ID)
		}
	})
	return ids, err
}

// Account reads one account.
func (m *Memory) Account(ctx context.Context, id int64) (a Account, err error) {
	err = m.inTx(ctx, func(t tx) error { return read(t, accountKey(id), &a) })
	return a, err
}

// Bill adds an invoice and sets the balance in one transaction.
func (m *Memory) Bill(ctx context.Context, inv Invoice, balance int64) error {
	return m.inTx(ctx, func(t tx) error {
		if err := m.createInvoice(t, inv); err != nil {
			return err
		}
		var a Account
		if err := read(t, accountKey(inv.AccountID), &a); err != nil {
			return err
		}
		a.Balance = balance
		return write(t, accountKey(inv.AccountID), a)
	})
}

func (m *Memory) createInvoice(t tx, inv Invoice) error {
	key := invoiceKey(inv)
	if !m.once {
		return write(t, key+"/"+rand.Text(), inv)
	}
	switch _, err := t.Read(key); {
	case err == nil:
		return ErrBilled
	case !errors.Is(err, fencedstore.ErrNotFound):
		return err
	}
	return write(t, key, inv)
}

// Audit counts everything.
func (m *Memory) Audit(ctx context.Context) (Audit, error) {
	var au Audit
	owed, slots := map[int64]int64{}, map[string]bool{}
	err := each(ctx, m, invoicePrefix, func(inv Invoice) {
		au.Invoices++
		owed[inv.AccountID] += inv.Amount
		slots[invoiceKey(inv)] = true
	})
	if err != nil {
		return Audit{}, err
	}
	au.Duplicates = au.Invoices - len(slots)
	err = each(ctx, m, accountPrefix, func(a Account) {
		au.Accounts++
		if a.Balance != opening+owed[a.ID] {
			au.WrongBalances++
		}
	})
	return au, err
}

const (
	accountPrefix = "account/"
	invoicePrefix = "invoice/"
)

func accountKey(id int64) string { return fmt.Sprintf("%s%019d", accountPrefix, id) }

func invoiceKey(inv Invoice) string {
	return fmt.Sprintf("%s%s/%d", invoicePrefix, inv.Night.Format(time.DateOnly), inv.AccountID)
}

func each[T any](ctx context.Context, m *Memory, prefix string, fn func(T)) error {
	keys := m.Keys(prefix)
	return m.inTx(ctx, func(t tx) error {
		for _, key := range keys {
			var v T
			if err := read(t, key, &v); err != nil {
				return err
			}
			fn(v)
		}
		return nil
	})
}

func read(t tx, key string, v any) error {
	b, err := t.Read(key)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

func write(t tx, key string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return t.Write(key, b)
}
