package fencedlock_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"
)

// unshown are methods that nobody calls by hand: what prints, what errors.Is and
// errors.As call, and hooks of go-redis.
var unshown = []string{
	"Error", "Is", "Unwrap", "String", "Format", "LogValue",
	"DialHook", "ProcessHook", "ProcessPipelineHook",
}

func TestEveryExportedFunctionHasAnExampleWithItsOutput(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{".", "locktest"} {
		p := documentation(t, dir)
		shown := 0
		check := func(of string, funcs []*doc.Func) {
			for _, f := range funcs {
				runs := func(e *doc.Example) bool { return e.Output != "" }
				switch {
				case !ast.IsExported(f.Name) || slices.Contains(unshown, f.Name):
				case !slices.ContainsFunc(f.Examples, runs):
					t.Errorf("%s: %s%s has no example with an output", p.Name, of, f.Name)
				default:
					shown++
				}
			}
		}
		check("", p.Funcs)
		for _, typ := range p.Types {
			check("", typ.Funcs)
			check(typ.Name+".", typ.Methods)
		}
		if shown < 10 {
			t.Errorf("%s: only %d functions were found, the test shows little", p.Name, shown)
		}
	}
}

// documentation is what go doc knows about the package in dir.
func documentation(t *testing.T, dir string) *doc.Package {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	p, err := doc.NewFromFiles(fset, files, "github.com/fenced-go/fenced/"+dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
