package check

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Head returns the first lines of the objects that the chart in a folder makes with one of its files of values. They
// have a hash of all files that take part, so a test without Helm finds objects of an older chart.
func Head(dir, name string) (string, error) {
	values := filepath.Join(dir, "ci", name+"-values.yaml")
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() || filepath.Base(filepath.Dir(path)) == "ci" && path != values {
			return nil
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		fmt.Fprintf(sum, "%s %d\n%s", filepath.ToSlash(rel), len(data), data)
		return err
	})
	return fmt.Sprintf("# helm template weir charts/weir --values charts/weir/ci/%s-values.yaml\n# of the chart %x\n", name, sum.Sum(nil)), err
}
