package fenced_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/fenced-go/fenced"

// Modules that cost their importers something.
const (
	goRedis        = "github.com/redis/go-redis"
	miniredis      = "github.com/alicebob/miniredis"
	pgxModule      = "github.com/jackc/pgx"
	goose          = "github.com/pressly/goose"
	aws            = "github.com/aws"
	gofakes3       = "github.com/johannesboyne/gofakes3"
	testcontainers = "github.com/testcontainers"
	porcupineMod   = "github.com/anishathalye/porcupine"
)

// layer is one package and what may be below it.
type layer struct {
	pkg string // below the module's path
	// only: these and the standard library, nothing else; nil means no limit.
	only []string
	// deny: none of these, directly or through others.
	deny []string
	// testing: the package is made for tests and may import "testing".
	testing bool
	why     string
}

// layers are all packages of the module: a new one states its rule here.
var layers = []layer{
	{pkg: "fencedstore", only: []string{}, why: "a service that only checks fences links neither Redis nor a database"},
	{pkg: "fencedstore/memstore", only: []string{module + "/fencedstore"}, why: "it is the contract, executable"},
	{
		pkg: "fencedstore/storetest", only: []string{module + "/fencedstore"}, testing: true,
		why: "authors of adapters must not inherit dependencies from a test kit",
	},
	{
		pkg: "fencedstore/postgres", deny: []string{goRedis, miniredis, goose, aws, testcontainers, module + "/fencedlock"},
		why: "users of a store may have another lock, and migrate with another tool",
	},
	{
		pkg: "fencedstore/s3compat", deny: []string{goRedis, miniredis, pgxModule, goose, testcontainers, gofakes3, module + "/fencedlock"},
		why: "users of an object store have no database, and may have another lock",
	},
	{
		pkg: "fencedlock", deny: []string{pgxModule, goose, aws, testcontainers, miniredis},
		why: "users of the lock may have another store",
	},
	{
		pkg: "fencedlock/locktest", deny: []string{pgxModule, goose, aws, testcontainers}, testing: true,
		why: "a fake Redis is all that unit tests of users need",
	},
	{pkg: "migrations", only: []string{}, why: "the SQL is used with the migration tool of the application"},
	{
		pkg: "migrations/migrate", deny: []string{goRedis, miniredis, aws, testcontainers, module + "/fencedlock"},
		why: "migrating needs a database only",
	},
	{
		pkg: "examples/billing", deny: []string{testcontainers, module + "/internal/testenv"},
		why: "the example shows what a user can write",
	},
	{pkg: "internal/model", only: []string{}, why: "it knows the protocols and no code that follows them"},
	{
		pkg: "internal/testenv", only: []string{}, testing: true,
		why: "every package's tests import it, and what tests import gets into the go.sum of users",
	},
	{pkg: "internal/faults", only: []string{}, why: "what judges the lock and the stores uses neither"},
	{
		pkg: "internal/testenv/docker", deny: []string{goRedis, pgxModule, aws}, testing: true,
		why: "servers need no client",
	},
}

// pkg is what go list says about a package, or about a test binary: those end
// in ".test", and packages compiled for one carry its name in brackets.
type pkg struct {
	ImportPath string
	Doc        string
	Standard   bool
	DepOnly    bool
	GoFiles    []string
	Imports    []string
}

// list asks for all packages of the module, their tests, and all below them.
var list = sync.OnceValues(func() (map[string]pkg, error) {
	cmd := exec.CommandContext(context.Background(), "go", "list", "-deps", "-test",
		"-json=ImportPath,Doc,Standard,DepOnly,GoFiles,Imports", "./...")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, stderr.String())
	}
	g := make(map[string]pkg)
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return g, nil
		case err != nil:
			return nil, err
		}
		g[p.ImportPath] = p
	}
})

func graph(t *testing.T) map[string]pkg {
	t.Helper()
	g, err := list()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// below returns all that a package imports, directly or through others.
func below(g map[string]pkg, root string) []string {
	seen := map[string]bool{root: true}
	paths := []string{root}
	for i := 0; i < len(paths); i++ {
		for _, path := range g[paths[i]].Imports {
			if !seen[path] && path != "C" {
				seen[path] = true
				paths = append(paths, path)
			}
		}
	}
	return paths[1:]
}

// within says whether an import path is prefix or below it.
func within(path, prefix string) bool {
	path, _, _ = strings.Cut(path, " ") // "path [binary.test]"
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// ours lists the packages of the module, without their tests.
func ours(g map[string]pkg) []string {
	var paths []string
	for path, p := range g {
		if within(path, module) && !p.DepOnly && !strings.Contains(path, " ") && !strings.HasSuffix(path, ".test") {
			paths = append(paths, path)
		}
	}
	return paths
}

func TestEveryPackageHasARule(t *testing.T) {
	t.Parallel()
	known := []string{module}
	for _, l := range layers {
		known = append(known, module+"/"+l.pkg)
	}
	found := ours(graph(t))
	for _, path := range known {
		if !slices.Contains(found, path) {
			t.Errorf("package %s is gone, and its rule is still here", path)
		}
	}
	for _, path := range found {
		owner, _, _ := strings.Cut(path[len(module):], "/internal/") // only the owner can import it
		if !slices.Contains(known, path) && (owner == "" || !slices.Contains(known, module+owner)) {
			t.Errorf("package %s has no rule: what may it import?", path)
		}
	}
}

func TestImportsPointDownwards(t *testing.T) {
	t.Parallel()
	g := graph(t)
	for _, l := range layers {
		path := module + "/" + l.pkg
		for _, dep := range below(g, path) {
			if g[dep].Standard {
				continue
			}
			if l.only != nil && !slices.Contains(l.only, dep) {
				t.Errorf("%s imports %s: %s", path, dep, l.why)
			}
			if slices.ContainsFunc(l.deny, func(d string) bool { return within(dep, d) }) {
				t.Errorf("%s imports %s: %s", path, dep, l.why)
			}
		}
	}
}

func TestProductionCodeDoesNotLinkTesting(t *testing.T) {
	t.Parallel()
	g := graph(t)
	for _, l := range layers {
		path := module + "/" + l.pkg
		if l.testing || l.pkg == "examples/billing" { // which runs on the fake Redis of locktest
			continue
		}
		if slices.Contains(below(g, path), "testing") {
			t.Errorf("%s imports \"testing\", which would be in the programs of users", path)
		}
	}
}

func TestOnlyTheRootImportsTestcontainers(t *testing.T) {
	t.Parallel()
	g := graph(t)
	docker := module + "/internal/testenv/docker"
	for _, l := range layers {
		path := module + "/" + l.pkg
		if path == docker {
			continue
		}
		if slices.ContainsFunc(below(g, path+".test"), func(dep string) bool {
			return within(dep, testcontainers) || within(dep, docker)
		}) {
			t.Errorf("the tests of %s use containers: a hundred modules would be in the go.sum of every user", path)
		}
		if slices.ContainsFunc(below(g, path+".test"), func(dep string) bool { return within(dep, porcupineMod) }) {
			t.Errorf("the tests of %s import %s; histories are checked at the root, where no user pays for it", path, porcupineMod)
		}
	}
}

func TestStoresAndLockAreTestedApart(t *testing.T) {
	t.Parallel()
	g := graph(t)
	for _, c := range []struct{ tests, banned string }{
		{"fencedstore", goRedis},
		{"fencedstore/memstore", goRedis},
		{"fencedstore/storetest", goRedis},
		{"fencedstore/postgres", module + "/fencedlock"},
		{"fencedstore/s3compat", goRedis},
		{"fencedstore/s3compat", pgxModule},
		{"migrations", module + "/fencedlock"},
		{"migrations/migrate", module + "/fencedlock"},
		{"fencedlock", pgxModule},
	} {
		for _, dep := range below(g, module+"/"+c.tests+".test") {
			if within(dep, c.banned) {
				t.Errorf("the tests of %s import %s; tests of the whole chain are at the root", c.tests, dep)
			}
		}
	}
}

func TestEveryPackageIsDocumented(t *testing.T) {
	t.Parallel()
	g := graph(t)
	for _, path := range ours(g) {
		if len(g[path].GoFiles) > 0 && g[path].Doc == "" {
			t.Errorf("%s has no package comment", path)
		}
	}
}
