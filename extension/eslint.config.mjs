import tseslint from 'typescript-eslint';

export default tseslint.config(
  { ignores: ['node_modules/', '.test-build/', '.lab-build/', 'build.mjs', 'eslint.config.mjs'] },
  ...tseslint.configs.strictTypeChecked,
  ...tseslint.configs.stylisticTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      // Typed arrays are read inside their bounds by construction, and `?? 0` would hide a fault and cost time.
      '@typescript-eslint/no-non-null-assertion': 'off',
      // Numbers read well in texts; everything else stays forbidden there.
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      // Text from files must never become markup or code.
      'no-restricted-properties': [
        'error',
        { property: 'innerHTML', message: 'Text is text: build nodes.' },
        { property: 'outerHTML', message: 'Text is text: build nodes.' },
        { property: 'insertAdjacentHTML', message: 'Text is text: build nodes.' },
      ],
      'no-eval': 'error',
      'no-implied-eval': 'off',
      '@typescript-eslint/no-implied-eval': 'error',
    },
  },
  {
    files: ['test/**'],
    // node:test gives promises that its runner awaits.
    rules: { '@typescript-eslint/no-floating-promises': 'off' },
  },
);
